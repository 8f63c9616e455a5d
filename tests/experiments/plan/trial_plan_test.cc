#include "experiments/plan/trial_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "datasets/families/families.h"
#include "experiments/plan/problem.h"
#include "sim/base/json_text.h"
#include "tests/testing/experiments.h"

namespace emplace::testing {
namespace trial_plan_test {

experiments::TrialPlan PlanText(const std::string& text, const std::string& file = "x.yaml") {
  return experiments::PlanTrials(ReadText(text, file));
}

std::string SpecText(const experiments::PlannedTrial& trial) {
  std::string text;
  AppendJson(&text, trial.spec);
  return text;
}

std::string At(const experiments::PlannedTrial& trial, const std::string& path) {
  const JsonValue* value = FindPath(trial.spec, path);
  std::string text;
  if (value != nullptr) AppendJson(&text, *value);
  return text;
}

TEST(TrialPlanTest, ASpecHoldsEveryDefault) {
  const experiments::TrialPlan plan = PlanText(kExperiment);
  ASSERT_EQ(plan.trials.size(), 1U);
  EXPECT_EQ(SpecText(plan.trials[0]),
            R"({"schema":"emplace.trial_spec","version":1,"experiment":"small",)"
            R"("graph":{"model":"rnnlm","set":{"hidden":64,"steps":2}},)"
            R"("grouping":{"name":"identity","groups":0},)"
            R"("cluster":{"name":"post-8k80","devices":["gpu:0","gpu:1"]},"engine":"fifo","costs":"roofline",)"
            R"("agent":{"label":"annealing","name":"annealing","set":{"final_ratio":"0.5"}},)"
            R"("budget":{"evaluations":600},"reward":"runtime","seed":3})");
  EXPECT_EQ(plan.trials[0].id.size(), 16U);
  EXPECT_EQ(plan.trials[0].graph, "rnnlm");
}

TEST(TrialPlanTest, ASpecSaysWhatIsMadeOfAGraph) {
  const auto plan = [](const std::string& transform) {
    return PlanText(WithLine("graphs: {model: rnnlm, set: {hidden: 64, steps: 2}, transform: " + transform + "}"));
  };
  EXPECT_EQ(At(plan("{data_parallel: 2, shard_optimizer: true}").trials.at(0), "graph.transform"),
            R"({"data_parallel":2,"shard_optimizer":true})");
  EXPECT_EQ(plan("{data_parallel: 1}").trials.at(0).id, PlanText(kExperiment).trials.at(0).id);
  EXPECT_EQ(ErrorOf([&] { plan("{tensor_parallel: 2}"); }),
            "x.yaml: graphs: transform: tensor_parallel: the graph is not one of the models gpt, bert and llama");
  EXPECT_EQ(ErrorOf([&] { plan("{replicas: 2}"); }).rfind("x.yaml: graphs.transform.replicas: ", 0), 0U);
  const experiments::TrialPlan swept = PlanText(WithLine("sweep: {graphs.transform.data_parallel: [1, 2, 4]}",
                                                         WithLine("graphs: {model: rnnlm, set: {steps: 2}}")));
  EXPECT_EQ(swept.trials.size(), 3U);
}

TEST(TrialPlanTest, ADeviceOfLibTorchStandsInTheSpecWhereItIsNotTheCpu) {
  const experiments::TrialPlan plan = experiments::PlanTrials(ReadText(WithLine("torch_device: cuda")), false);
  EXPECT_EQ(At(plan.trials.at(0), "torch_device"), "\"cuda\"");
  EXPECT_EQ(experiments::LoadSearchSpec(plan.trials.at(0).choice).torch_device, "cuda");
  EXPECT_NE(plan.trials.at(0).id, PlanText(kExperiment).trials.at(0).id);
  EXPECT_EQ(PlanText(WithLine("torch_device: cpu")).trials.at(0).id, PlanText(kExperiment).trials.at(0).id);
  EXPECT_EQ(ErrorOf([] { PlanText(WithLine("torch_device: gpu")); }), "x.yaml: torch_device: is \"gpu\" (cpu, cuda)");
}

TEST(TrialPlanTest, ATrialOnAGpuIsRefusedWhereThereIsNone) {
  if (std::filesystem::exists("/dev/nvidiactl")) GTEST_SKIP() << "there is one";
  EXPECT_EQ(ErrorOf([] { experiments::PlanTrials(ReadText(WithLine("torch_device: cuda"), "x.yaml"), true); }),
            "x.yaml: torch_device: torch device: is \"cuda\", and LibTorch finds no CUDA device (cpu)");
}

TEST(TrialPlanTest, YamlAndJsonGiveTheSameTrials) {
  const std::string json = R"({"schema": "emplace.experiment", "version": 1, "name": "small", "seeds": [3],
    "graphs": {"model": "rnnlm", "set": {"steps": 2, "hidden": 64}}, "agent": {"set": {"final_ratio": 0.5},
    "name": "annealing"}, "costs": "roofline", "budget": {"evaluations": 600},
    "cluster": {"name": "post-8k80", "devices": ["gpu:0", "gpu:1"]}})";
  EXPECT_EQ(PlanText(json).trials.at(0).id, PlanText(kExperiment).trials.at(0).id);
  EXPECT_NE(PlanText(WithLine("seeds: [4]")).trials.at(0).id, PlanText(kExperiment).trials.at(0).id);
}

TEST(TrialPlanTest, TrialsAreCellsTimesGraphsTimesSeeds) {
  // cifar10 is generated in half a second.
  const std::string text =
      WithLine("sweep: {agent.name: [random, round_robin, random_walk]}",
               WithLine("agent: {}", WithLine("seeds: [1, 2]", WithLine("graphs: {dataset: cifar10, sample: 4}"))));
  const experiments::TrialPlan plan = PlanText(text);
  EXPECT_EQ(plan.trials.size(), 3U * 4U * 2U);
  EXPECT_EQ(plan.merged, 0U);
  // Every agent gets the same graphs.
  std::set<std::string> graphs;
  std::set<std::string> ids;
  for (const experiments::PlannedTrial& trial : plan.trials) {
    graphs.insert(trial.graph);
    EXPECT_TRUE(ids.insert(trial.id).second);
  }
  EXPECT_EQ(graphs.size(), 4U);
  for (std::size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(plan.trials[i].graph, plan.trials[i + 8].graph);
    EXPECT_EQ(plan.trials[i].graph, plan.trials[i + 16].graph);
  }
  // The random choices for this member.
  const auto& facts = experiments::FamilyFacts("cifar10", 42);
  const std::size_t index = std::stoul(At(plan.trials[0], "graph.index"));
  EXPECT_EQ(At(plan.trials[0], "grouping.groups"), std::to_string(facts[index].num_groups));
}

TEST(TrialPlanTest, ASampleIsDrawnByItsSeedInAscendingOrderFromTheSplit) {
  experiments::GraphChoice choice;
  choice.dataset = "cifar10";
  EXPECT_EQ(experiments::ChosenMembers(choice).size(), datasets::kFamilySize);
  choice.split = "train";
  const std::vector<std::size_t> training = experiments::ChosenMembers(choice);
  EXPECT_EQ(training.size(), datasets::kFamilySize / 2);
  choice.split = "test";
  for (const std::size_t i : experiments::ChosenMembers(choice)) {
    EXPECT_EQ(std::count(training.begin(), training.end(), i), 0) << i;
  }
  choice.sample = 5;
  const std::vector<std::size_t> sample = experiments::ChosenMembers(choice);
  EXPECT_EQ(sample.size(), 5U);
  EXPECT_TRUE(std::is_sorted(sample.begin(), sample.end()));
  EXPECT_EQ(experiments::ChosenMembers(choice), sample);
  for (const std::size_t i : sample) EXPECT_EQ(std::count(training.begin(), training.end(), i), 0) << i;
  choice.dataset = "ptb";  // the same members in every family
  EXPECT_EQ(experiments::ChosenMembers(choice), sample);
  choice.seed = 43;
  EXPECT_NE(experiments::ChosenMembers(choice), sample);
  choice.index = {3, 9};
  EXPECT_EQ(experiments::ChosenMembers(choice), (std::vector<std::size_t>{3, 9}));
}

TEST(TrialPlanTest, GraphsTogetherAreOneTrialAndEachSaysItsGroups) {
  const std::string text = WithLine("graphs: {dataset: cifar10, index: [2, 5], together: true}");
  EXPECT_EQ(ErrorOf([&] { PlanText(text); }),
            "x.yaml: graphs.together: agent annealing does not learn, so it takes one graph at a time (exclude it)");
  const experiments::TrialPlan plan = experiments::PlanTrials(ReadText(text), /*set_up=*/false);
  ASSERT_EQ(plan.trials.size(), 1U);
  const auto& facts = experiments::FamilyFacts("cifar10", 42);
  EXPECT_EQ(At(plan.trials[0], "graph"), "");
  EXPECT_EQ(At(plan.trials[0], "together"),
            "[{\"dataset\":\"cifar10\",\"seed\":42,\"index\":2,\"groups\":" + std::to_string(facts[2].num_groups) +
                "},{\"dataset\":\"cifar10\",\"seed\":42,\"index\":5,\"groups\":" + std::to_string(facts[5].num_groups) +
                "}]");
  EXPECT_EQ(plan.trials[0].graph, "2 graphs");
}

TEST(TrialPlanTest, WhatIsTheSameTrialOnceResolvedIsPlannedOnce) {
  // identity ignores the number of groups, so its two cells are one.
  const experiments::TrialPlan plan = PlanText(
      WithLine("sweep: {graphs.grouping.groups: [16, 32], graphs.grouping.name: [identity, merge_and_colocate]}"));
  EXPECT_EQ(plan.trials.size(), 3U);
  EXPECT_EQ(plan.merged, 1U);
}

TEST(TrialPlanTest, FilesAreNamedWholeAndKnownByTheirContent) {
  const std::string folder = ::testing::TempDir() + "/trial_plan_files";
  std::filesystem::create_directories(folder);
  const auto write = [&](const std::string& name, const std::string& text) {
    std::ofstream(folder + "/" + name) << text;
  };
  const auto graph = [&](const char* time) {
    write("g.json", std::string(R"({"schema": "emplace.graph", "version": 1, "name": "one", "ops": [{"name": "a",
      "kind": "test", "time_us": )") +
                        time + "}]}");
  };
  write("c.yaml",
        "schema: emplace.cluster\nversion: 1\nname: desk\ndevices: [{name: \"gpu:0\", kind: k80, memory_gib: 1, count: "
        "3}]\nlink: {bandwidth_gb_per_s: 1}\n");
  graph("4");
  const std::string text =
      WithLine("costs: measured",
               WithLine("graphs: {files: [g.json]}", WithLine("cluster: {file: c.yaml, gpus: 2, memory: unlimited}")));
  const experiments::PlannedTrial trial = PlanText(text, folder + "/x.yaml").trials.at(0);
  EXPECT_EQ(trial.graph, "one");
  EXPECT_EQ(At(trial, "graph.file"), "\"" + std::filesystem::path(folder).lexically_normal().string() + "/g.json\"");
  EXPECT_EQ(At(trial, "cluster.name"), "\"desk\"");
  EXPECT_EQ(At(trial, "cluster.devices"), R"(["gpu:0","gpu:1"])");
  EXPECT_EQ(At(trial, "cluster.memory"), "\"unlimited\"");
  const agents::SearchProblem problem = experiments::LoadProblem(*trial.choice.graph, trial.choice);
  EXPECT_EQ(problem.cluster.num_devices(), 2U);
  EXPECT_FALSE(problem.cluster.devices()[0].memory);
  graph("5");
  EXPECT_NE(PlanText(text, folder + "/x.yaml").trials.at(0).id, trial.id);
  std::filesystem::remove_all(folder);
}

TEST(TrialPlanTest, WhatCannotWorkIsSaidBeforeTheFirstTrial) {
  const auto refusal = [](const std::string& line) {
    return ErrorOf([&] { PlanText(WithLine(line), "/nowhere/x.yaml"); });
  };
  const std::string file = "/nowhere/x.yaml: ";
  EXPECT_EQ(refusal("graphs: {files: [g.json]}"),
            file + "graphs.files[0]: /nowhere/g.json: cannot be read (No such file or directory)");
  EXPECT_EQ(refusal("cluster: {file: c.yaml}"),
            file + "cluster.file: /nowhere/c.yaml: cannot be read (No such file or directory)");
  EXPECT_EQ(refusal("costs: {profile: p.json}"),
            file + "costs: /nowhere/p.json: cannot be read (No such file or directory)");
  EXPECT_EQ(refusal("cluster: {name: post-8k80, gpus: 9}").rfind(file + "cluster.gpus: ", 0), 0U);
  EXPECT_EQ(refusal("cluster: {name: post-8k80, devices: [\"gpu:0\", \"tpu:0\"]}").rfind(file + "cluster.devices: ", 0),
            0U);
  EXPECT_EQ(refusal("graphs: {model: rnnlm, set: {width: 3}}").rfind(file + "graphs: rnnlm.width: unknown option (", 0),
            0U);
  // The ops of a model have no measured times.
  EXPECT_EQ(refusal("costs: measured").rfind(file + "costs: ", 0), 0U);
  EXPECT_EQ(refusal("transfer: {set: {steps: 3}}"),
            file + "transfer: agent annealing has no policy to transfer (exclude it)");
  EXPECT_EQ(ErrorOf([&] {
              PlanText(WithLine("agent: {name: placeto}",
                                WithLine("transfer: {set: {steps: 3}}", WithLine("validate_every: 2"))),
                       "/nowhere/x.yaml");
            }),
            file + "transfer: cannot be used with real devices (one graph at a time)");
  EXPECT_EQ(refusal("sweep: {agent: [{name: random}, {name: cpu_only}]}"),
            file + "sweep.agent[1].name: cpu_only has nothing to propose without a CPU (exclude it)");
  EXPECT_EQ(refusal("sweep: {cluster.gpus: [1, 2]}").rfind(file + "sweep[\"cluster.gpus\"][0]: cannot be used", 0), 0U);
}

}  // namespace trial_plan_test
}  // namespace emplace::testing
