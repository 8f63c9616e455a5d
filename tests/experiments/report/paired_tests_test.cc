#include "experiments/report/paired_tests.h"

#include <gtest/gtest.h>

#include <gmock/gmock.h>
#include <cmath>

#include "tests/testing/runs.h"

namespace emplace::testing {
namespace {

std::vector<experiments::PairedTest> Tests(
    const std::vector<experiments::TrialRecord>& records,
    experiments::PairedQuantity quantity = experiments::PairedQuantity::kImprovement) {
  const experiments::ReportGrid grid = experiments::MakeReportGrid(records);
  std::vector<std::size_t> all;
  for (std::size_t c = 0; c < grid.columns.size(); ++c) all.push_back(c);
  return experiments::MakePairedTests(records, grid, all, quantity);
}

TEST(PairedTestsTest, PairsAreOfTheSameGraphClusterAndSeed) {
  // a and b share graph 0 with seed 1 on two clusters; only one of them has graph 1 and seed 2.
  const auto records = MakeRecords({{.label = "a", .devices = 2, .best = 700},
                                    {.label = "b", .devices = 2, .best = 800},
                                    {.label = "a", .devices = 3, .best = 600},
                                    {.label = "b", .devices = 3, .best = 500},
                                    {.label = "a", .index = 1, .devices = 2, .best = 100},
                                    {.label = "b", .devices = 2, .seed = 2, .best = 100}});
  const auto tests = Tests(records);
  ASSERT_EQ(tests.size(), 1U);
  EXPECT_EQ(tests[0].pairs, 2U);
  EXPECT_EQ(tests[0].graphs, 1U);
  // 30 - 20 = 10 and 40 - 50 = -10.
  EXPECT_NEAR(tests[0].difference.mean, 0, 1e-12);
  EXPECT_EQ(tests[0].over_pairs.p_value, 1);
}

TEST(PairedTestsTest, TheBetterAgentStandsFirst) {
  std::vector<SampleTrial> trials;
  for (int index = 0; index < 6; ++index) {
    trials.push_back({.label = "a", .index = index, .best = 900.0 + index});
    trials.push_back({.label = "b", .index = index, .best = 800.0 - index});
    trials.push_back({.label = "c", .index = index, .best = 700.0 - 3 * index});
  }
  const auto tests = Tests(MakeRecords(trials));
  ASSERT_EQ(tests.size(), 3U);
  for (const experiments::PairedTest& test : tests) {
    EXPECT_LT(test.worse, test.better);
    EXPECT_GT(test.difference.mean, 0);
    // Six of six in the same direction: exactly 2 / 2^6. The correction for three equal tests multiplies each by 3.
    EXPECT_DOUBLE_EQ(test.over_pairs.p_value, 2.0 / 64);
    EXPECT_DOUBLE_EQ(test.adjusted_pairs, 6.0 / 64);
    EXPECT_DOUBLE_EQ(test.adjusted_graphs, 6.0 / 64);
  }
}

TEST(PairedTestsTest, OverGraphsEachGraphCountsOnce) {
  // Five seeds of two graphs: ten pairs, all in one direction, but only two graphs.
  std::vector<SampleTrial> trials;
  for (int index = 0; index < 2; ++index) {
    for (int seed = 1; seed <= 5; ++seed) {
      trials.push_back({.label = "a", .index = index, .seed = seed, .best = 900});
      trials.push_back({.label = "b", .index = index, .seed = seed, .best = 800.0 - seed - 10 * index});
    }
  }
  const auto tests = Tests(MakeRecords(trials));
  ASSERT_EQ(tests.size(), 1U);
  EXPECT_EQ(tests[0].better, "b");
  EXPECT_DOUBLE_EQ(tests[0].over_pairs.p_value, 2.0 / 1024);
  EXPECT_DOUBLE_EQ(tests[0].over_graphs.p_value, 2.0 / 4);
}

TEST(PairedTestsTest, StepTimesAreComparedByTheirRatio) {
  // 900 against 450 us: 100 ln 2 = 69.3.
  const auto tests = Tests(MakeRecords({{.label = "a", .best = 900}, {.label = "b", .best = 450}}),
                           experiments::PairedQuantity::kLogStepTime);
  ASSERT_EQ(tests.size(), 1U);
  EXPECT_EQ(tests[0].better, "b");
  EXPECT_NEAR(tests[0].difference.mean, 100 * std::log(2), 1e-9);
}

TEST(PairedTestsTest, WithoutTheTimeOfOneDeviceStepTimesAreCompared) {
  auto records = MakeRecords({{.label = "a"}, {.label = "b"}});
  EXPECT_EQ(experiments::QuantityToPair(records), experiments::PairedQuantity::kImprovement);
  records[1].graphs[0].single_device_micros.reset();
  EXPECT_EQ(experiments::QuantityToPair(records), experiments::PairedQuantity::kLogStepTime);
}

TEST(PairedTestsTest, OneAgentAgainstTheOthersOverSomeProblems) {
  const auto records = MakeRecords({{.label = "a", .best = 700},
                                    {.label = "b", .best = 800},
                                    {.label = "c", .best = 100},
                                    {.label = "a", .index = 1, .best = 100},
                                    {.label = "b", .index = 1, .best = 900}});
  const experiments::ReportGrid grid = experiments::MakeReportGrid(records);
  const experiments::ProblemsByLabel problems = {{"a", {{0, "cifar10_00"}}}, {"b", {{0, "cifar10_00"}}}};
  const auto tests =
      experiments::MakeTestsAgainst("b", records, grid, problems, experiments::PairedQuantity::kImprovement);
  ASSERT_EQ(tests.size(), 1U);
  EXPECT_EQ(tests[0].better, "a");
  EXPECT_EQ(tests[0].worse, "b");
  EXPECT_NEAR(tests[0].difference.mean, 10, 1e-12);
  // Three agents on six graphs: two tests instead of three, so Holm's factor is 2.
  std::vector<SampleTrial> trials;
  experiments::ProblemsByLabel all;
  for (int index = 0; index < 6; ++index) {
    for (const char* const label : {"a", "b", "c"}) {
      trials.push_back({.label = label, .index = index, .best = 900.0 - (100 + index) * (label[0] - 'a')});
      all[label].emplace(0, "cifar10_0" + std::to_string(index));
    }
  }
  const auto made = MakeRecords(trials);
  const auto against = experiments::MakeTestsAgainst("c", made, experiments::MakeReportGrid(made), all,
                                                     experiments::PairedQuantity::kImprovement);
  ASSERT_EQ(against.size(), 2U);
  EXPECT_DOUBLE_EQ(against[0].adjusted_pairs, 4.0 / 64);
}

}  // namespace
}  // namespace emplace::testing

namespace emplace::testing {
namespace {

std::vector<double> Ranks(const std::vector<SampleTrial>& samples) {
  const std::vector<experiments::TrialRecord> trials = MakeRecords(samples);
  std::vector<double> ranks;
  for (const auto& scores : experiments::RankScores(trials, experiments::MakeReportGrid(trials))) {
    EXPECT_LE(scores.size(), 1U);
    ranks.push_back(scores.empty() ? -1 : scores[0].score.value);
  }
  return ranks;
}

TEST(RankScoresTest, TheFastestIsFirstAndWhoFindsNothingLast) {
  EXPECT_THAT(Ranks({{.label = "a", .best = 800},
                     {.label = "b", .best = 700},
                     {.label = "c", .best = std::nullopt},
                     {.label = "d", .best = 800}}),
              ::testing::ElementsAre(2.5, 1, 4, 2.5));
}

TEST(RankScoresTest, GraphsDevicesAndSeedsAreProblemsOfTheirOwn) {
  EXPECT_THAT(Ranks({{.label = "a", .best = 800},
                     {.label = "b", .best = 700},
                     {.label = "a", .index = 1, .best = 600},
                     {.label = "b", .index = 1, .best = 700},
                     {.label = "a", .devices = 4, .best = 1},
                     {.label = "a", .seed = 2, .best = 500},
                     {.label = "b", .seed = 2, .best = 500}}),
              ::testing::ElementsAre(2, 1, 1, 2, -1, 1.5, 1.5));
}

}  // namespace
}  // namespace emplace::testing
