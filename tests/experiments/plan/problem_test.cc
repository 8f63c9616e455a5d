#include "experiments/plan/problem.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "datasets/families/families.h"
#include "datasets/shipped_clusters.h"
#include "experiments/plan/trial_plan.h"
#include "sim/base/json_struct.h"
#include "sim/base/json_text.h"
#include "tests/testing/errors.h"
#include "tests/testing/experiments.h"
#include "tests/testing/graphs.h"
#include "tests/testing/op_case.h"

namespace emplace::testing {
namespace problem_test {

experiments::TrialChoice ChoiceOf(const std::string& experiment) {
  return experiments::PlanTrials(ReadText(experiment), /*set_up=*/false).trials.at(0).choice;
}

TEST(ProblemTest, AMemberIsThatOfTheFamilyWithItsNumberOfGroupsLengthy) {
  const std::vector<datasets::FamilyMember> members = datasets::MakeFamily(datasets::FindFamily("cifar10"), 42);
  const experiments::TrialChoice choice = ChoiceOf(WithLine("graphs: {dataset: cifar10, index: 7}"));
  const agents::SearchProblem problem = experiments::LoadProblem(*choice.graph, choice);
  EXPECT_EQ(GraphText(problem.graph), GraphText(members[7].graph));
  EXPECT_EQ(problem.max_groups, members[7].num_groups);
  const auto& facts = experiments::FamilyFacts("cifar10", 42);
  for (std::size_t i = 0; i < datasets::kFamilySize; ++i) {
    EXPECT_EQ(facts[i].num_groups, members[i].num_groups);
    EXPECT_EQ(facts[i].num_ops, members[i].graph.num_ops());
    EXPECT_EQ(facts[i].training, members[i].training);
  }
}

TEST(ProblemTest, GroupsBesideAGraphGoBeforeThoseOfTheGroupingAndZeroMeansAsDrawn) {
  const experiments::TrialChoice choice =
      ChoiceOf(WithLine("graphs: {dataset: cifar10, index: 7, grouping: {groups: 20}}"));
  const auto groups = [&](const char* graph) {
    return experiments::LoadProblem(ReadFields<experiments::GraphSource>(JsonNode(ParseJson(graph))), choice)
        .max_groups;
  };
  EXPECT_EQ(groups(R"({"dataset": "cifar10", "seed": 42, "index": 7})"), 20U);
  EXPECT_EQ(groups(R"({"dataset": "cifar10", "seed": 42, "index": 7, "groups": 30})"), 30U);
  EXPECT_EQ(groups(R"({"dataset": "cifar10", "seed": 42, "index": 7, "groups": 0})"),
            experiments::FamilyFacts("cifar10", 42)[7].num_groups);
  EXPECT_EQ(groups(R"({"model": "rnnlm", "set": {"steps": 2}, "groups": 0})"), 256U);
}

TEST(ProblemTest, ASpecIsATrial) {
  const agents::SearchSpec trial = experiments::LoadSearchSpec(ChoiceOf(
      WithLine("graphs: {dataset: cifar10, index: [2, 5], together: true}", WithLine("budget: {episodes: 4}"))));
  EXPECT_EQ(trial.problem.graph.name(), "cifar10_02");
  ASSERT_EQ(trial.also.size(), 1U);
  EXPECT_EQ(trial.also[0].graph.name(), "cifar10_05");
  EXPECT_EQ(trial.also[0].max_groups, experiments::FamilyFacts("cifar10", 42)[5].num_groups);
  EXPECT_EQ(trial.agent, "annealing");
  EXPECT_EQ(trial.agent_options.at("final_ratio"), "0.5");
  EXPECT_EQ(trial.episodes, 4U);
  EXPECT_EQ(trial.evaluations, 0U);
  EXPECT_EQ(trial.seed, 3U);
  EXPECT_EQ(trial.reward, "runtime");
}

TEST(ProblemTest, SpecsWithoutAMemoryOfTheRewardAreOfTheTimeWhenItWasFixed) {
  experiments::TrialChoice choice = ChoiceOf(WithLine("graphs: {dataset: cifar10, index: [2]}"));
  const auto reward = [&](const std::string& text) {
    choice.reward = text;
    return experiments::LoadSearchSpec(choice).reward;
  };
  EXPECT_EQ(reward("log_memory_penalty"), "log_memory_penalty:M=10.7");
  EXPECT_EQ(reward("memory_penalty:c=3"), "memory_penalty:c=3,M=10.7");
  EXPECT_EQ(reward("memory_penalty:M=capacity"), "memory_penalty:M=capacity");
  EXPECT_EQ(reward("sqrt:invalid=3"), "sqrt:invalid=3");
}

TEST(ProblemTest, ASpecMayHaveAnObjectiveOrASchedule) {
  const std::string graph = "graphs: {dataset: cifar10, index: [2]}";
  EXPECT_EQ(experiments::LoadSearchSpec(ChoiceOf(WithLine(graph, WithLine("objective: throughput")))).objective,
            "throughput");
  const agents::SearchSpec trial =
      experiments::LoadSearchSpec(ChoiceOf(WithLine(graph, WithLine("schedule: 1f1b", WithLine("micro_batches: 4")))));
  ASSERT_TRUE(trial.pipeline.has_value());
  EXPECT_EQ(trial.pipeline->name, "1f1b");
  EXPECT_EQ(trial.pipeline->micro_batches, 4U);
  EXPECT_EQ(trial.collectives, "model");
  EXPECT_EQ(experiments::LoadSearchSpec(ChoiceOf(WithLine(graph, WithLine("collectives: tree")))).collectives, "tree");
}

TEST(ProblemTest, ASpecMayHaveAStartAnIncumbentAndDrawsOfEachGraph) {
  const auto trial = [](const std::string& graph, const std::string& line) {
    return experiments::LoadSearchSpec(
        ChoiceOf(WithLine("graphs: {dataset: cifar10, index: [" + graph + "]}", WithLine(line))));
  };
  EXPECT_EQ(trial("2", "start: best").start, "best");
  EXPECT_EQ(trial("2", "start: none").start, "");
  EXPECT_EQ(trial("2", "incumbent: single_device").incumbent, "single_device");
  EXPECT_EQ(trial("2", "draws: shared").seed, 3U);
  const std::uint64_t seed = trial("2", "draws: per_graph").seed;
  EXPECT_NE(seed, 3U);
  EXPECT_EQ(trial("2", "draws: per_graph").seed, seed);
  EXPECT_NE(trial("3", "draws: per_graph").seed, seed);
}

TEST(ProblemTest, AnInstanceOfTheLibraryIsAProblem) {
  const experiments::TrialChoice choice = ChoiceOf(R"(schema: emplace.experiment
version: 1
name: instances
graphs: {instances: [planted-800-equal-4], grouping: {name: merge_and_colocate, groups: 20}}
agent: {name: heft}
)");
  EXPECT_EQ(choice.cluster.devices.size(), 4U);
  EXPECT_EQ(choice.engine, "fifo");
  const agents::SearchProblem problem = experiments::LoadProblem(*choice.graph, choice);
  EXPECT_EQ(problem.name, "planted-800-equal-4");
  EXPECT_EQ(problem.graph.num_ops(), 800U);
  EXPECT_EQ(problem.cluster.num_devices(), 4U);
  EXPECT_EQ(problem.max_groups, 20U);
  experiments::TrialChoice other = choice;
  other.graph->fingerprint = "0123456789abcdef";
  EXPECT_EQ(
      ErrorOf([&] { experiments::LoadProblem(*other.graph, other); }),
      "graph: instance: planted-800-equal-4 has a different hash than when the trial was planned (sweep again: that "
      "makes a new trial)");
  // A spec is read as it was written.
  EXPECT_EQ(*experiments::ReadTrialChoice(experiments::TrialChoiceToJson(choice)).graph, *choice.graph);
}

TEST(ProblemTest, AGraphIsMadeAnewOrKept) {
  const experiments::GraphSource source{.model = "rnnlm", .set = {{"steps", "2"}}};
  EXPECT_EQ(GraphText(experiments::LoadGraph(source)), GraphText(experiments::KeptGraph(source)));
  experiments::GraphSource grouped = source;
  grouped.groups = 7;
  EXPECT_EQ(&experiments::KeptGraph(grouped), &experiments::KeptGraph(source));  // both share one cached graph
  experiments::GraphSource longer = source;
  longer.set["steps"] = "3";
  EXPECT_GT(experiments::KeptGraph(longer).num_ops(), experiments::KeptGraph(source).num_ops());
}

TEST(ProblemTest, AGraphIsTransformed) {
  const experiments::GraphSource source{.model = "rnnlm", .set = {{"layers", "1"}, {"steps", "2"}}};
  experiments::GraphSource replicas = source;
  replicas.transform = {.data_parallel = 2};
  const Graph graph = experiments::LoadGraph(replicas);
  EXPECT_EQ(GraphText(graph), GraphText(datasets::Transform(experiments::LoadGraph(source), {.data_parallel = 2})));
  EXPECT_GT(graph.num_ops(), 2 * experiments::KeptGraph(source).num_ops());
  replicas.transform = {.tensor_parallel = 2};
  EXPECT_EQ(ErrorOf([&] { experiments::KeptGraph(replicas); }),
            "transform: tensor_parallel: the graph is not one of the models gpt, bert and llama");
}

TEST(ProblemTest, OfAClusterThatMuchIsKeptAsIsChosen) {
  const Cluster whole = experiments::LoadWholeCluster({.name = "p2.8xlarge"});
  const auto names = [&](const experiments::ClusterChoice& choice) {
    std::string list;
    const Cluster kept = experiments::KeepChosen(whole, choice);
    for (const Device& device : kept.devices()) list += device.name + " ";
    return list;
  };
  EXPECT_EQ(names({.devices = {"gpu:3", "gpu:1"}}), names({.devices = {"gpu:1", "gpu:3"}}));
  EXPECT_EQ(names({.devices = {"gpu:1"}}), "gpu:1 ");
  EXPECT_EQ(names({.gpus = 2}), names({.devices = {"cpu:0", "gpu:0", "gpu:1"}}));
  EXPECT_EQ(ErrorOf([&] { experiments::KeepChosen(whole, {.devices = {"tpu"}}, "--"); }).rfind("--devices: ", 0), 0U);
  EXPECT_EQ(ErrorOf([&] { experiments::KeepChosen(whole, {.gpus = 99}, "--"); }).rfind("--gpus: ", 0), 0U);
  EXPECT_NE(ErrorOf([&] { experiments::KeepChosen(whole, {.gpus = 99}); }).rfind("--gpus: ", 0), 0U);
  // Nobody who asks for 0 GPUs wants a step on the CPU, but whoever names it does.
  EXPECT_EQ(ErrorOf([&] { experiments::KeepChosen(whole, {.gpus = 0}, "cluster."); }),
            "cluster.gpus: is 0, which leaves only the CPU (at least 1, or cluster.devices cpu:0)");
  EXPECT_EQ(names({.devices = {"cpu:0"}, .gpus = 0}), "cpu:0 ");
}

TEST(ProblemTest, AProfileHasTheOtherCostsToFallBackOn) {
  EXPECT_EQ(experiments::LoadCostModels({}).fallback, nullptr);
  EXPECT_NE(experiments::LoadCostModels({.model = "roofline"}).model, nullptr);
  EXPECT_EQ(ErrorOf([] { experiments::LoadCostModels({.model = "guess"}, "--costs"); }).rfind("--costs: ", 0), 0U);
  EXPECT_NE(ErrorOf([] { experiments::LoadCostModels({.profile = "/no/such.json"}); }).find("/no/such.json"),
            std::string::npos);
}

TEST(ProblemTest, CostsWithoutANameAreMeasuredElseCurvesElseRoofline) {
  const auto cluster = [](const std::vector<std::pair<std::string, bool>>& kinds) {
    std::vector<Device> devices;
    for (const auto& [kind, is_cpu] : kinds) {
      Device device{.name = "d" + std::to_string(devices.size()), .kind = kind, .memory = std::nullopt};
      device.is_cpu = is_cpu;
      devices.push_back(device);
    }
    return Cluster::Uniform("c", devices, {.bandwidth_gb_per_s = 10});
  };
  const Cluster h100 = cluster({{"h100", false}, {"cpu-core", true}});
  const Cluster mixed = cluster({{"h100", false}, {"k80", false}});
  const Cluster cpus = cluster({{"cpu-core", true}});
  const Graph estimated = GraphOf({"relu", {F32({64, 64})}, {F32({64, 64})}, ""});
  const Graph timed = MakeChain(3, 1, 8);
  const auto model = [](const Graph& graph, const Cluster& of, const experiments::CostsChoice& asked = {}) {
    return experiments::ResolvedCosts(asked, graph, of).model;
  };
  EXPECT_EQ(model(timed, h100), "measured");
  EXPECT_EQ(model(estimated, h100), "curves") << "a CPU has none, and takes roofline";
  EXPECT_EQ(model(estimated, mixed), "roofline");
  EXPECT_EQ(model(estimated, cpus), "roofline");
  EXPECT_EQ(model(estimated, h100, {.model = "roofline"}), "roofline");
  EXPECT_EQ(model(estimated, h100, {.profile = "p.json"}), "") << "an op that the profile lacks is an error";
  EXPECT_EQ(model(timed, h100, {.tf32 = "none"}), "curves");
  EXPECT_EQ(model(timed, h100, {.runtime = "pytorch"}), "curves");
  EXPECT_EQ(experiments::CostsText({.model = "curves", .runtime = "pytorch"}), "curves, runtime pytorch");
  EXPECT_THROW(experiments::LoadCostModels({.model = "roofline", .runtime = "pytorch"}), InputError);
  const auto detail = [&](const Cluster& of, const experiments::CostsChoice& asked) {
    return experiments::CostsDetail(asked, experiments::ResolvedCosts(asked, estimated, of), estimated, of);
  };
  EXPECT_EQ(detail(h100, {}), "1 elementwise; by roofline 0; no curves, so roofline, on cpu-core");
  EXPECT_EQ(detail(mixed, {}), "no curves of k80");
  EXPECT_EQ(detail(mixed, {.model = "roofline"}), "");
  EXPECT_TRUE(experiments::LoadCostModels({.model = "curves"}).model->TimesCollectives());
  // Experiments name theirs, or have measured times.
  EXPECT_EQ(ChoiceOf(WithLine("costs: curves")).costs, "curves");
}

TEST(ProblemTest, ErrorsOfCostsNameTheGraphOrTheCluster) {
  const Graph graph = datasets::MakeFamilyMember(datasets::FindFamily("cifar10"), 1, 0).graph;
  const Cluster known = datasets::LoadCluster("p2.8xlarge");
  const Device device{.name = "a", .kind = "p1000", .memory = std::nullopt};
  const Cluster unknown = Cluster::Uniform("c", {device}, {.bandwidth_gb_per_s = 1});
  const experiments::CostModels roofline = experiments::LoadCostModels({.model = "roofline"});
  const auto costs = [&](const Cluster& cluster, const experiments::CostModels& models) {
    return ErrorOf([&] { experiments::MakeCosts(graph, cluster, models, "g.json", "c.yaml"); });
  };
  EXPECT_EQ(costs(unknown, roofline).rfind("c.yaml: kind \"p1000\": has no rates", 0), 0U) << costs(unknown, roofline);
  EXPECT_EQ(costs(unknown, experiments::LoadCostModels({})).rfind("g.json: op ", 0), 0U)
      << "the graph has times for other kinds";
  experiments::CostModels with_fallback = experiments::LoadCostModels({.model = "roofline"});
  with_fallback.fallback = experiments::LoadCostModels({}).model;
  EXPECT_EQ(ErrorOf([&] { experiments::CheckKinds(with_fallback, unknown, ""); }), "(no error)")
      << "the fallback may know it";
  EXPECT_EQ(ErrorOf([&] { experiments::CheckKinds(roofline, known, ""); }), "(no error)");
}

TEST(ProblemTest, AFileThatHasChangedIsRefused) {
  const std::string path = std::filesystem::path(::testing::TempDir() + "/changing.json").lexically_normal().string();
  const auto write = [&](const char* time) {
    std::ofstream(path) << R"({"schema": "emplace.graph", "version": 1, "ops": [{"name": "a", "kind": "t", "time_us": )"
                        << time << "}]}";
  };
  write("1");
  experiments::TrialChoice choice = ChoiceOf(WithLine("graphs: {files: [" + path + "]}", WithLine("costs: measured")));
  // A graph that was read stays in the cache, although the file has changed.
  write("2");
  const std::string other = path + "2";
  std::filesystem::copy_file(path, other, std::filesystem::copy_options::overwrite_existing);
  choice.graph->file = other;
  EXPECT_EQ(ErrorOf([&] { experiments::LoadSearchSpec(choice); }),
            "graph: " + other + ": has changed since the trial was planned (sweep again to make a new trial)");
  std::filesystem::remove(path);
  std::filesystem::remove(other);
}

}  // namespace problem_test
}  // namespace emplace::testing
