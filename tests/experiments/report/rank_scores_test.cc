#include "experiments/report/rank_scores.h"

#include <gmock/gmock.h>

#include "tests/testing/runs.h"

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
