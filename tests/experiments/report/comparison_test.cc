#include "experiments/report/comparison.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <vector>

#include "experiments/report/answer.h"
#include "experiments/run/run_reader.h"
#include "tests/testing/runs.h"

namespace emplace::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

experiments::Comparison Compare(const std::vector<experiments::TrialRecord>& trials) {
  std::optional<experiments::Comparison> comparison =
      experiments::CompareAgents(trials, experiments::MakeReportGrid(trials));
  EXPECT_TRUE(comparison.has_value());
  return comparison.value_or(experiments::Comparison());
}

std::vector<std::string> Labels(const experiments::Comparison& comparison) {
  std::vector<std::string> labels;
  for (const experiments::ComparedAgent& contender : comparison.contenders) labels.push_back(contender.label);
  return labels;
}

TEST(ReportComparisonTest, TheBestMeanComesFirstAndControlsAreMarked) {
  const experiments::Comparison comparison = Compare(MakeRecords({{.label = "a", .name = "placeto", .best = 700},
                                                                  {.label = "walk", .name = "random_walk", .best = 650},
                                                                  {.label = "b", .name = "post", .best = 700}}));
  EXPECT_THAT(Labels(comparison), ElementsAre("walk", "a", "b"));
  EXPECT_TRUE(comparison.contenders[0].is_control);
  EXPECT_FALSE(comparison.contenders[1].is_control);
  EXPECT_DOUBLE_EQ(comparison.contenders[0].improvement.mean, 35);
  EXPECT_EQ(comparison.problems, 1U);
  EXPECT_EQ(comparison.all_problems, 1U);
  EXPECT_THAT(comparison.left_out, IsEmpty());
  EXPECT_EQ(comparison.tests.size(), 2U);  // the first agent against each other one
}

TEST(ReportComparisonTest, TheLowerBoundIsAnImprovementLikeOthers) {
  // The bound of the samples is 400 us; one device takes 1000 us on one graph and 500 us on the other: 60 and 20 %.
  const experiments::Comparison comparison =
      Compare(MakeRecords({{}, {.index = 1, .single_device = 500, .best = 450}}));
  ASSERT_TRUE(comparison.bound);
  EXPECT_DOUBLE_EQ(*comparison.bound, 40);
  EXPECT_DOUBLE_EQ(comparison.contenders[0].improvement.mean, 15);
}

TEST(ReportComparisonTest, ProblemsThatOneAgentDidNotSolveDoNotCount) {
  // b finds no placement on graph 2, on which a is bad.
  const experiments::Comparison comparison = Compare(MakeRecords({{.label = "a", .index = 0, .best = 500},
                                                                  {.label = "a", .index = 1, .best = 500},
                                                                  {.label = "a", .index = 2, .best = 2000},
                                                                  {.label = "b", .index = 0, .best = 600},
                                                                  {.label = "b", .index = 1, .best = 600},
                                                                  {.label = "b", .index = 2, .best = std::nullopt}}));
  EXPECT_EQ(comparison.problems, 2U);
  EXPECT_EQ(comparison.all_problems, 3U);
  EXPECT_THAT(Labels(comparison), ElementsAre("a", "b"));
  EXPECT_DOUBLE_EQ(comparison.contenders[0].improvement.mean, 50);
  EXPECT_EQ(comparison.tests.at(0).pairs, 2U);
}

TEST(ReportComparisonTest, AnAgentThatSolvedTooFewIsLeftOut) {
  std::vector<SampleTrial> trials;
  for (int index = 0; index < 4; ++index) {
    trials.push_back({.label = "a", .index = index});
    trials.push_back({.label = "b", .index = index, .best = index == 0 ? std::optional<double>(700) : std::nullopt});
    trials.push_back({.label = "c", .index = index, .best = 900});
  }
  const experiments::Comparison comparison = Compare(MakeRecords(trials));
  EXPECT_THAT(Labels(comparison), ElementsAre("a", "c"));
  EXPECT_EQ(comparison.problems, 4U);
  ASSERT_EQ(comparison.left_out.size(), 1U);
  EXPECT_EQ(comparison.left_out[0].label, "b");
  EXPECT_EQ(comparison.left_out[0].solved, 1U);
  ASSERT_EQ(comparison.tests.size(), 1U);  // Holm's correction counts only the compared agents
  EXPECT_EQ(comparison.tests[0].adjusted_pairs, comparison.tests[0].over_pairs.p_value);
}

TEST(ReportComparisonTest, OnlyColumnsThatAllTriedCount) {
  // Three agents on 2 GPUs; on 3 GPUs only the first, which is better there.
  const experiments::Comparison comparison = Compare(MakeRecords({{.label = "a", .devices = 2, .best = 800},
                                                                  {.label = "b", .devices = 2, .best = 700},
                                                                  {.label = "c", .devices = 2, .best = 900},
                                                                  {.label = "a", .devices = 3, .best = 100}}));
  EXPECT_THAT(Labels(comparison), ElementsAre("b", "a", "c"));
  EXPECT_DOUBLE_EQ(comparison.contenders[1].improvement.mean, 20);
  // One agent that lacks many columns is omitted instead of the columns.
  const experiments::Comparison other = Compare(MakeRecords({{.label = "a", .devices = 2},
                                                             {.label = "b", .devices = 2},
                                                             {.label = "c", .devices = 2},
                                                             {.label = "a", .devices = 3},
                                                             {.label = "b", .devices = 3}}));
  EXPECT_THAT(Labels(other), ElementsAre("a", "b"));
  EXPECT_EQ(other.problems, 2U);
  ASSERT_EQ(other.left_out.size(), 1U);
  EXPECT_EQ(other.left_out[0].solved, std::nullopt);
}

// The trial of `label` on graph 1 failed or, without an error, is not finished.
experiments::Comparison CompareWithout(const std::vector<std::string>& labels, const std::string& error) {
  experiments::ExperimentRuns runs{.name = "demo"};
  runs.trials = MakeRecords({{.label = "a"}, {.label = "b", .best = 100}});
  for (const std::string label : {"a", "b"}) {
    experiments::UnfinishedTrial trial{.id = "x"};
    trial.spec = MakeRecord({.label = label, .index = 1}).spec;
    if (std::find(labels.begin(), labels.end(), label) == labels.end()) {
      runs.trials.push_back(MakeRecord({.label = label, .index = 1}));
    } else {
      if (!error.empty()) trial.error = error;
      runs.unfinished.push_back(trial);
    }
  }
  const experiments::ReportGrid grid = experiments::MakeReportGrid(experiments::WithMissingTrials(runs));
  return experiments::CompareAgents(runs.trials, grid, runs.unfinished).value_or(experiments::Comparison());
}

TEST(ReportComparisonTest, AgentsWithoutAllTrialsAreLeftOutUnlessAllAre) {
  const experiments::Comparison failed = CompareWithout({"b"}, "too large");
  EXPECT_THAT(Labels(failed), ElementsAre("a"));
  ASSERT_EQ(failed.left_out.size(), 1U);
  EXPECT_TRUE(failed.left_out[0].failed);
  // One alone compares with nothing: those that are not finished count with what they have.
  const experiments::Comparison unfinished = CompareWithout({"b"}, "");
  EXPECT_THAT(Labels(unfinished), ElementsAre("b", "a"));
  EXPECT_EQ(unfinished.unfinished, 1U);
  const experiments::AnswerBlock answer = experiments::MakeAnswer("?", unfinished);
  EXPECT_THAT(answer.answer, ::testing::StartsWith("1 trial of these agents is not finished, so this is not a final"));
  EXPECT_THAT(answer.notes, ::testing::Contains(HasSubstr("1 problem counts so far")));
  EXPECT_EQ(CompareWithout({"a", "b"}, "").unfinished, 2U);
}

TEST(ReportComparisonTest, OfSeveralAgentsThoseThatAreNotFinishedAreLeftOut) {
  std::vector<experiments::TrialRecord> trials = MakeRecords({{.label = "a"}, {.label = "b"}, {.label = "c"}});
  experiments::UnfinishedTrial trial{.id = "x"};
  trial.spec = MakeRecord({.label = "b", .index = 1}).spec;
  trials.push_back(MakeRecord({.label = "a", .index = 1}));
  trials.push_back(MakeRecord({.label = "c", .index = 1}));
  const experiments::ExperimentRuns runs{.name = "demo", .trials = trials, .unfinished = {trial}};
  const experiments::ReportGrid grid = experiments::MakeReportGrid(experiments::WithMissingTrials(runs));
  const auto comparison = experiments::CompareAgents(runs.trials, grid, runs.unfinished);
  ASSERT_TRUE(comparison);
  EXPECT_THAT(Labels(*comparison), ::testing::UnorderedElementsAre("a", "c"));
  ASSERT_EQ(comparison->left_out.size(), 1U);
  EXPECT_TRUE(comparison->left_out[0].unfinished);
  EXPECT_FALSE(comparison->left_out[0].failed);
  EXPECT_EQ(comparison->unfinished, 0U);
  EXPECT_THAT(experiments::MakeAnswer("?", comparison).notes,
              ::testing::Contains(HasSubstr("because trials are not finished: b.")));
}

TEST(ReportComparisonTest, AppliedPoliciesAreComparedOnGraphsNotTrainedOn) {
  std::vector<experiments::TrialRecord> trials = MakeRecords({{.label = "a"}, {.label = "b", .best = 100}});
  trials[0].transfers = {{.graph = "t", .single_device_micros = 100, .best_micros = 60}};
  trials[1].transfers = {{.graph = "t", .single_device_micros = 100, .best_micros = 90}};
  const experiments::Comparison comparison = Compare(trials);
  EXPECT_EQ(comparison.quantity, experiments::PairedQuantity::kTransferImprovement);
  EXPECT_THAT(Labels(comparison), ElementsAre("a", "b"));
  EXPECT_DOUBLE_EQ(comparison.contenders[0].improvement.mean, 40);
  EXPECT_FALSE(comparison.bound);
}

TEST(ReportComparisonTest, WithoutTheTimeOfOneDeviceThereIsNone) {
  auto trials = MakeRecords({{.label = "a"}, {.label = "b", .single_device = std::nullopt}});
  EXPECT_FALSE(experiments::CompareAgents(trials, experiments::MakeReportGrid(trials)));
  trials = MakeRecords({{.label = "a", .best = std::nullopt}});
  EXPECT_FALSE(experiments::CompareAgents(trials, experiments::MakeReportGrid(trials)));
}

}  // namespace
}  // namespace emplace::testing
