#include "experiments/plan/experiment.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "experiments/plan/trial_plan.h"
#include "sim/base/file_io.h"
#include "tests/testing/experiments.h"

namespace emplace::testing {
namespace experiment_test {

std::string Refusal(const std::string& text) {
  return ErrorOf([&] { ReadText(text); });
}

TEST(ExperimentTest, TheFirstCommentLineIsTheQuestion) {
  EXPECT_EQ(ReadText(kExperiment).question, "Is it small?");
  EXPECT_EQ(ReadText(std::string("\n#\t  Two  \n# Three\n") + kExperiment).question, "Two");
  const std::string without = std::string(kExperiment).substr(std::string(kExperiment).find('\n') + 1);
  EXPECT_EQ(ReadText(without).question, "");
  EXPECT_EQ(ReadText(without + "# Too late\n").question, "");
  EXPECT_EQ(ReadText(WithLine("question: As a key?", without)).question, "As a key?");
}

TEST(ExperimentTest, FirstCommentIsTheFirstLine) {
  EXPECT_EQ(experiments::FirstComment("\n# Which one?\nschema: x"), "Which one?");
  EXPECT_EQ(experiments::FirstComment("schema: x\n# Which one?"), "");
  const JsonValue name{std::string("a/b")};
  EXPECT_THROW(experiments::ReadExperimentName(JsonNode(name)), InputError);
}

TEST(ExperimentTest, WhatIsNoExperimentIsRefused) {
  EXPECT_EQ(Refusal(""), "x.yaml: the file is empty (a YAML document)");
  EXPECT_EQ(Refusal("3"), "x.yaml: is the number 3 (an object of schema \"emplace.experiment\")");
  EXPECT_EQ(Refusal(WithLine("schema: emplace.graph")),
            "x.yaml: schema: is the text \"emplace.graph\" (\"emplace.experiment\")");
  EXPECT_EQ(Refusal(WithLine("version: 2")), "x.yaml: version: is the number 2 (1)");
  EXPECT_EQ(Refusal(WithLine("budgets: 3")),
            "x.yaml: budgets: unknown key (schema, version, name, question, graphs, transfer, cluster, costs, seeds, "
            "metrics, published, sweep, exclude, checksum, engine, collectives, agent, budget, objective, schedule, "
            "micro_batches, reward, start, incumbent, draws, torch_device, reward_source, hardware, validate_every); "
            "did you mean budget?");
  EXPECT_EQ(Refusal(std::string(kExperiment) + "engine: fifo\nengine: fifo\n"),
            "x.yaml: engine: duplicate key (each key once)");
}

TEST(ExperimentTest, ANameIsThatOfAFolder) {
  for (const char* const name : {"''", "a/b", ".a", "..", "'a b'", "3"}) {
    const std::string refusal = Refusal(WithLine("name: " + std::string(name)));
    EXPECT_EQ(refusal.rfind("x.yaml: name: is ", 0), 0U) << refusal;
    EXPECT_NE(refusal.find("the name of a folder"), std::string::npos) << refusal;
  }
  EXPECT_EQ(ReadText(WithLine("name: Thesis-2_b.c")).name, "Thesis-2_b.c");
}

TEST(ExperimentTest, MetricsAreThoseThatAReportCanShow) {
  EXPECT_EQ(ReadText(WithLine("metrics: [improvement, pc_ratio]")).metrics.size(), 2U);
  EXPECT_EQ(Refusal(WithLine("metrics: [fame]")),
            "x.yaml: metrics[0]: is the text \"fame\" (step_time, step_time_best, step_time_median, "
            "step_time_worst, hardware_step_time, improvement, single_device_improvement, thesis_improvement, "
            "transfer_improvement, "
            "transfer_final, "
            "final_improvement, policy_seconds, policy_seconds_in_all, pc_ratio, evaluations, ops, entropy, "
            "initial_entropy, lower_bound_ratio, "
            "lower_bound_ratio_100, lower_bound_ratio_1000, best_known_ratio, curve_area, rank, "
            "search_seconds, simulator_seconds, wall_seconds)");
  EXPECT_EQ(Refusal(WithLine("metrics: [entropy, entropy]")),
            "x.yaml: metrics[1]: is a duplicate entry (each metric once)");
}

TEST(ExperimentTest, ATableOfPublishedNumbersIsAFileOrAShippedOne) {
  EXPECT_EQ(Refusal(WithLine("published: nowhere")),
            "x.yaml: published: \"nowhere\" is not a table of published numbers (one of experiments/published, or a "
            "file)");
  // A shipped table of another schema is not accepted.
  EXPECT_EQ(Refusal(WithLine("published: calibration")).rfind("x.yaml: published: \"calibration\" is not a table", 0),
            0U);
  const std::string path = ::testing::TempDir() + "/published_numbers.yaml";
  std::ofstream(path) << "schema: emplace.published\n";
  EXPECT_EQ(ReadText(WithLine("published: published_numbers.yaml"), ::testing::TempDir() + "/x.yaml").published,
            std::filesystem::path(path).lexically_normal().string());
  std::filesystem::remove(path);
}

TEST(ExperimentTest, ASweptValueThatIsWrongIsNamedInTheSweep) {
  const auto refusal = [](const std::string& sweep) { return Refusal(WithLine("sweep: " + sweep)); };
  EXPECT_EQ(refusal("{engine: [fifo, steam]}"),
            "x.yaml: sweep.engine[1]: unknown engine \"steam\" (fifo, flow, placeto-reference)");
  EXPECT_EQ(refusal("{agent: [{name: random}, {name: random, sets: 1}]}"),
            "x.yaml: sweep.agent[1].sets: unknown key (label, name, set); did you mean set?");
  EXPECT_EQ(refusal("{agent.set.final_ratio: [0.1, 7]}"),
            "x.yaml: agent.set: annealing: final_ratio must be 1e-12..1, got 7, where agent.set.final_ratio is 7");
  EXPECT_EQ(refusal("{agent.name: [annealing, random]}"),
            "x.yaml: agent.set: random.final_ratio: unknown option (use_cpus), where agent.name is random");
}

TEST(ExperimentTest, WhatEveryCellHasInCommonIsReadOnceAndOnItsOwn) {
  EXPECT_EQ(Refusal(WithLine("sweep: {reward: [runtime, log_runtime]}", WithLine("engine: steam"))),
            "x.yaml: engine: unknown engine \"steam\" (fifo, flow, placeto-reference)");
  // Values that cells replace are checked too.
  EXPECT_EQ(Refusal(WithLine("sweep: {engine: [fifo]}", WithLine("engine: steam"))),
            "x.yaml: engine: unknown engine \"steam\" (fifo, flow, placeto-reference)");
  // But they need not be complete.
  EXPECT_EQ(ReadText(WithLine("sweep: {agent.name: [random, round_robin]}", WithLine("agent: {}"))).cells.size(), 2U);
}

TEST(ExperimentTest, EveryAgentHasALabelOfItsOwn) {
  const experiments::ExperimentSpec swept = ReadText(WithLine("sweep: {agent.set.final_ratio: [0.1, 0.2]}"));
  EXPECT_EQ(swept.cells.at(0).label, "annealing final_ratio=0.1");
  EXPECT_EQ(swept.cells.at(1).label, "annealing final_ratio=0.2");
  EXPECT_EQ(Refusal(WithLine("sweep: {agent: [{name: annealing}, {name: annealing, set: {final_ratio: 0.1}}]}")),
            "x.yaml: sweep.agent[1].label: \"annealing\" is also that of an agent with another name or other options "
            "(a label for each)");
  EXPECT_EQ(Refusal(WithLine("sweep: {agent.name: [random, round_robin]}", WithLine("agent: {label: one}"))),
            "x.yaml: agent.label: \"one\" is also that of an agent with another name or other options (a label for "
            "each), where agent.name is round_robin");
}

TEST(ExperimentTest, PathsAreSeenFromTheFolderOfTheExperiment) {
  EXPECT_EQ(experiments::ResolvePath("g.json", "/a/b/x.yaml"), "/a/b/g.json");
  EXPECT_EQ(experiments::ResolvePath("../g.json", "/a/b/x.yaml"), "/a/g.json");
  EXPECT_EQ(experiments::ResolvePath("/g.json", "/a/b/x.yaml"), "/g.json");
  EXPECT_EQ(experiments::ResolvePath("g.json", "-"), (std::filesystem::current_path() / "g.json").string());
}

// Every experiment in experiments/configs can be planned.
TEST(ExperimentTest, ShippedExperimentsCanBePlannedSlow) {
  const std::filesystem::path folder =
      std::filesystem::path(EMPLACE_TEST_SOURCE_DIR).parent_path() / "experiments/configs";
  std::size_t read = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string text = ReadWholeFile(entry.path().string());
    if (text.find("\nschema: emplace.experiment\n") == std::string::npos) continue;
    const experiments::ExperimentSpec experiment = ReadText(text, entry.path().string());
    EXPECT_NE(experiment.question, "") << entry.path();
    EXPECT_FALSE(experiment.cells.empty()) << entry.path();
    ++read;
    // Experiments on real devices name files that are made on the machine.
    if (experiment.cells[0].NeedsHardware()) continue;
    EXPECT_GT(experiments::PlanTrials(experiment).trials.size(), 0U) << entry.path();
  }
  EXPECT_GT(read, 0U);
}

TEST(ExperimentTest, NoTableOfTheThesisIsWithoutARandomWalk) {
  const std::filesystem::path folder =
      std::filesystem::path(EMPLACE_TEST_SOURCE_DIR).parent_path() / "experiments/configs";
  std::size_t tables = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string text = ReadWholeFile(entry.path().string());
    // A policy applied to other graphs is compared with an untrained policy.
    if (text.find("protocol: thesis") == std::string::npos) continue;
    const experiments::ExperimentSpec experiment = ReadText(text, entry.path().string());
    EXPECT_TRUE(std::any_of(experiment.cells.begin(), experiment.cells.end(),
                            [](const experiments::ExperimentCell& cell) { return cell.agent == "random_walk"; }))
        << entry.path();
    ++tables;
  }
  EXPECT_GT(tables, 2U);
}

}  // namespace experiment_test
}  // namespace emplace::testing
