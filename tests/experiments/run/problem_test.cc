#include "experiments/run/problem.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "datasets/families/families.h"
#include "experiments/spec/trial_plan.h"
#include "sim/base/json_text.h"
#include "sim/formats/graph_json.h"
#include "tests/testing/experiments.h"

namespace emplace::testing {
namespace problem_test {

std::string Written(const Graph& graph) {
  std::ostringstream out;
  WriteGraph(out, graph);
  return out.str();
}

JsonValue SpecOf(const std::string& experiment) {
  return PlanTrials(ReadText(experiment), /*set_up=*/false).trials.at(0).spec;
}

TEST(ProblemTest, AMemberIsThatOfTheFamilyWithItsNumberOfGroups) {
  const std::vector<FamilyMember> members = MakeFamily(FindFamily("cifar10"), 42);
  const JsonValue spec = SpecOf(WithLine("graphs: {dataset: cifar10, index: 7}"));
  const TrialProblem problem = LoadProblem(*FindPath(spec, "graph"), spec);
  EXPECT_EQ(Written(problem.graph), Written(members[7].graph));
  EXPECT_EQ(problem.max_groups, members[7].num_groups);
  const auto& facts = FactsOfFamily("cifar10", 42);
  for (std::size_t i = 0; i < kFamilySize; ++i) {
    EXPECT_EQ(facts[i].num_groups, members[i].num_groups);
    EXPECT_EQ(facts[i].num_ops, members[i].graph.num_ops());
    EXPECT_EQ(facts[i].training, members[i].training);
  }
}

TEST(ProblemTest, GroupsBesideAGraphGoBeforeThoseOfTheGroupingAndZeroMeansAsDrawn) {
  const JsonValue spec = SpecOf(WithLine("graphs: {dataset: cifar10, index: 7, grouping: {groups: 20}}"));
  const auto groups = [&](const char* graph) { return LoadProblem(ParseJson(graph), spec).max_groups; };
  EXPECT_EQ(groups(R"({"dataset": "cifar10", "seed": 42, "index": 7})"), 20U);
  EXPECT_EQ(groups(R"({"dataset": "cifar10", "seed": 42, "index": 7, "groups": 30})"), 30U);
  EXPECT_EQ(groups(R"({"dataset": "cifar10", "seed": 42, "index": 7, "groups": 0})"),
            FactsOfFamily("cifar10", 42)[7].num_groups);
  EXPECT_EQ(groups(R"({"model": "rnnlm", "set": {"steps": 2}, "groups": 0})"), 256U);
}

TEST(ProblemTest, ASpecIsATrial) {
  const TrialSpec trial = LoadTrialSpec(
      SpecOf(WithLine("graphs: {dataset: cifar10, index: [2, 5], together: true}", WithLine("budget: {episodes: 4}"))));
  EXPECT_EQ(trial.problem.graph.name(), "cifar10_02");
  ASSERT_EQ(trial.also.size(), 1U);
  EXPECT_EQ(trial.also[0].graph.name(), "cifar10_05");
  EXPECT_EQ(trial.also[0].max_groups, FactsOfFamily("cifar10", 42)[5].num_groups);
  EXPECT_EQ(trial.agent, "annealing");
  EXPECT_EQ(trial.agent_options.at("final_ratio"), "0.5");
  EXPECT_EQ(trial.episodes, 4U);
  EXPECT_EQ(trial.evaluations, 0U);
  EXPECT_EQ(trial.seed, 3U);
  EXPECT_EQ(trial.reward, "runtime");
}

TEST(ProblemTest, AFileThatHasChangedIsRefused) {
  const std::string path = std::filesystem::path(::testing::TempDir() + "/changing.json").lexically_normal().string();
  const auto write = [&](const char* time) {
    std::ofstream(path) << R"({"schema": "emplace.graph", "version": 1, "ops": [{"name": "a", "kind": "t", "time_us": )"
                        << time << "}]}";
  };
  write("1");
  JsonValue spec = SpecOf(WithLine("graphs: {files: [" + path + "]}", WithLine("costs: measured")));
  JsonValue& graph = std::get<JsonObject>(spec.data)[3].value;
  // Not asked for before: a graph that was read stays.
  std::get<JsonObject>(graph.data).push_back({"groups", JsonValue{std::int64_t{9}}});
  write("2");
  const std::string other = path + "2";
  std::filesystem::copy_file(path, other, std::filesystem::copy_options::overwrite_existing);
  std::get<JsonObject>(graph.data)[0].value.data = other;
  EXPECT_EQ(
      ErrorOf([&] { LoadTrialSpec(spec); }),
      "graph: " + other + ": is not what it was when the trial was planned (sweep again: that makes a new trial)");
  std::filesystem::remove(path);
  std::filesystem::remove(other);
}

TEST(ProblemTest, ASpecThatNobodyWroteIsRefused) {
  const auto refusal = [](const std::string& text) { return ErrorOf([&] { LoadTrialSpec(ParseJson(text)); }); };
  EXPECT_EQ(refusal("{}"), "schema: is missing (\"emplace.trial_spec\")");
  const std::string head = R"({"schema": "emplace.trial_spec", "version": 1)";
  EXPECT_EQ(refusal(head + "}"), "graph: is missing (a graph)");
  EXPECT_EQ(refusal(head + R"(, "graphs": 3})").rfind("graphs: unknown key (schema, ", 0), 0U);
  EXPECT_EQ(refusal(head + R"(, "graph": {}})"), "graph: model: is missing (a dataset, a file or a model)");
  EXPECT_EQ(refusal(head + R"(, "graph": {"dataset": "nmt", "seed": 1, "index": 32}})"),
            "graph: index: is the number 32 (an integer from 0 to 31)");
  EXPECT_EQ(refusal(head + R"(, "together": []})"), "together: is a list of 0 elements (a list of at least one graph)");
}

}  // namespace problem_test
}  // namespace emplace::testing
