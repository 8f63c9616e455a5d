#include "experiments/library/score/library_score.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "experiments/library/instances.h"
#include "experiments/library/known_results.h"
#include "experiments/library/library_files.h"
#include "sim/base/check.h"

namespace emplace::experiments {
namespace {

using ::testing::DoubleNear;
using ::testing::HasSubstr;
using Trace = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

// Scores of "chain-8-equal-2" and "fork-6-equal-2" whose step times are these multiples of the best known, at 10 and
// 100 evaluations.
LibraryScores MakeScores(const std::string& label, double at_10, double at_100) {
  LibraryScores scores;
  scores.label = label;
  scores.agent = "annealing";
  scores.seed = 1;
  scores.emplace = "test";
  for (const std::string name : {"chain-8-equal-2", "fork-6-equal-2"}) {
    const auto best = static_cast<double>(FindKnownResult(name)->step_time_ns);
    const auto first = static_cast<std::uint64_t>(best * at_10);
    const auto last = static_cast<std::uint64_t>(best * at_100);
    scores.instances.push_back({.instance = name,
                                .hash = FindInstance(name).hash,
                                .results = {{.budget = 10, .evaluations = 10, .step_time_ns = first, .found = true},
                                            {.budget = 100, .evaluations = 90, .step_time_ns = last, .found = true}},
                                .trace = {{1, first}, {51, last}, {90, last}}});
  }
  return scores;
}

TEST(LibraryScoreTest, ThePrimalIntegralIsTheMeanGap) {
  // Nothing at evaluations 1 and 2; (200 - 100) / 200 = 0.5 at 3 to 6; 0 at 7 to 10.
  const Trace trace = {{3, 200}, {7, 100}, {8, 100}};
  EXPECT_DOUBLE_EQ(PrimalIntegral(trace, 10, 100), 100 * (2 * 1 + 4 * 0.5) / 10);
  EXPECT_DOUBLE_EQ(PrimalIntegral({}, 10, 100), 100);
  EXPECT_DOUBLE_EQ(PrimalIntegral(Trace{{1, 90}}, 10, 100), 0);  // a record
  EXPECT_DOUBLE_EQ(PrimalIntegral(Trace{{1, 200}}, 1, 100), 50);
  EXPECT_DOUBLE_EQ(PrimalIntegral(Trace{{5, 100}}, 4, 100), 100);  // found after the budget
}

TEST(LibraryScoreTest, TheMeanGapIsGeometric) {
  EXPECT_NEAR(GeometricMeanGap(std::vector<double>{1, 4}), 100, 1e-9);
  EXPECT_NEAR(GeometricMeanGap(std::vector<double>{1.1}), 10, 1e-9);
}

TEST(LibraryScoreTest, ScoresAreReadAsTheyWereWritten) {
  const LibraryScores scores = MakeScores("one", 2, 1);
  std::ostringstream out;
  WriteLibraryScores(out, scores);
  std::istringstream in(out.str());
  std::ostringstream again;
  WriteLibraryScores(again, ReadLibraryScores(in, "scores.json"));
  EXPECT_EQ(again.str(), out.str());
  std::istringstream bad(R"({"schema": "emplace.library_scores", "version": 1, "label": 3})");
  try {
    ReadLibraryScores(bad, "scores.json");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("scores.json: label: is"));
  }
}

TEST(LibraryScoreTest, SearchersAreComparedOnTheSameInstances) {
  const LibraryScores own = MakeScores("own", 2, 1.5);
  LibraryScores partial = MakeScores("partial", 1, 1);
  partial.instances.pop_back();
  LibraryScores stale = MakeScores("stale", 1, 1);
  stale.instances[0].hash = "0000000000000000";
  LibraryScores lost = MakeScores("lost", 2, 1);
  lost.instances[0].results[1].found = false;
  lost.instances[0].trace.clear();
  const auto tiers = CompareScores(own, std::vector<LibraryScores>{partial, stale, lost});
  ASSERT_EQ(tiers.size(), 1U);
  EXPECT_EQ(tiers[0].first, "tiny");
  const std::vector<TierScore>& scores = tiers[0].second;
  ASSERT_EQ(scores.size(), 2U);
  EXPECT_EQ(scores[0].label, "own");
  EXPECT_EQ(scores[0].instances, 2U);
  EXPECT_THAT(*scores[0].gaps[0], DoubleNear(100, 1e-3));
  EXPECT_THAT(*scores[0].gaps[1], DoubleNear(50, 1e-3));
  EXPECT_EQ(scores[0].not_found, 0U);
  // 1/2 at the first 50 evaluations, then 1/3.
  EXPECT_THAT(scores[0].primal_integral, DoubleNear(100 * (0.5 * 50 + 50. / 3) / 100, 1e-2));
  EXPECT_EQ(scores[1].label, "lost");
  EXPECT_EQ(scores[1].not_found, 1U);
  EXPECT_THAT(*scores[1].gaps[1], DoubleNear(100 * (3.16227766 - 1), 1e-3));  // the root of 10 x 1
}

TEST(LibraryScoreTest, ThePageHasATableAndACurve) {
  const LibraryScores own = MakeScores("own", 2, 1.5);
  const ReportDocument page = MakeScorePage(own, std::vector<LibraryScores>{MakeScores("other", 2, 1)});
  std::ostringstream out;
  WriteMarkdown(out, page);
  EXPECT_THAT(out.str(), HasSubstr("tiny: 2 instances"));
  EXPECT_THAT(out.str(), HasSubstr("100 evaluations"));
  EXPECT_THAT(out.str(), HasSubstr("other"));
}

TEST(LibraryScoreTest, TheCommittedScoresAreOfTheInstancesAsTheyAre) {
  for (const auto& [name, text] : LibraryScoreFiles()) {
    std::istringstream in{std::string(text)};
    const LibraryScores scores = ReadLibraryScores(in, std::string(name));
    for (const InstanceScore& score : scores.instances) {
      EXPECT_EQ(score.hash, FindInstance(score.instance).hash) << name << ", " << score.instance;
    }
  }
}

}  // namespace
}  // namespace emplace::experiments
