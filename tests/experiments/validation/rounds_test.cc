#include "experiments/validation/rounds.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <vector>

#include "experiments/validation/validation.h"
#include "sim/base/rng.h"

namespace emplace {
namespace {

using ::testing::Ge;
using ::testing::Le;

const auto kAlways = [] { return true; };

TEST(RoundsTest, EveryPlacementIsVisitedOnceInEachRoundBetweenTwoOfTheReference) {
  std::vector<std::optional<std::size_t>> order;
  const auto rounds = experiments::MeasureInRounds(
      3, {.rounds = 4},
      [&](std::optional<std::size_t> which) -> std::optional<double> {
        order.push_back(which);
        return which ? 10.0 * static_cast<double>(*which + 1) : 5;
      },
      kAlways);
  ASSERT_TRUE(rounds);
  ASSERT_EQ(order.size(), 4U * 7);
  std::map<std::vector<std::size_t>, int> orders;
  for (std::size_t round = 0; round < 4; ++round) {
    std::vector<std::size_t> visited;
    for (std::size_t i = 0; i < 7; ++i) {
      const auto& which = order[7 * round + i];
      EXPECT_EQ(which.has_value(), i % 2 == 1);
      if (which) visited.push_back(*which);
    }
    ++orders[visited];
    EXPECT_THAT(visited, ::testing::UnorderedElementsAre(0, 1, 2));
  }
  EXPECT_GT(orders.size(), 1U);  // the order changes
  EXPECT_EQ(rounds->reference.size(), 16U);
  for (std::size_t p = 0; p < 3; ++p) EXPECT_EQ(rounds->visits[p].size(), 4U);
}

// A machine that becomes three times slower while it is measured, with 1 % of noise: the ratios do not see it.
TEST(RoundsTest, AMachineThatSlowsDownDoesNotChangeTheRatios) {
  const std::vector<double> truth = {50, 75, 90};
  Rng rng(7);
  double speed = 1;
  const auto rounds = experiments::MeasureInRounds(
      truth.size(), {.rounds = 20},
      [&](std::optional<std::size_t> which) -> std::optional<double> {
        speed *= 1.009;
        return (which ? truth[*which] : 100) * speed * (1 + 0.01 * (rng.Uniform() - 0.5));
      },
      kAlways);
  ASSERT_TRUE(rounds);
  EXPECT_GT(rounds->reference.back(), 2.9 * rounds->reference.front());
  for (std::size_t p = 0; p < truth.size(); ++p) {
    const experiments::MeanOfRounds speed_up = experiments::SpeedUp(rounds->visits[p]);
    EXPECT_NEAR(speed_up.mean, 100 / truth[p], 0.005 * 100 / truth[p]);
    ASSERT_TRUE(speed_up.interval);
    EXPECT_THAT(100 / truth[p], ::testing::AllOf(Ge(speed_up.interval->low), Le(speed_up.interval->high)));
    EXPECT_LT(speed_up.interval->high - speed_up.interval->low, 0.02);
    const std::vector<double> steady = experiments::SteadyMicros(*rounds, p);
    const auto [least, most] = std::minmax_element(steady.begin(), steady.end());
    EXPECT_LT(*most / *least, 1.03);
  }
}

TEST(RoundsTest, WhatDoesNotFitIsNotVisitedAgain) {
  std::map<std::size_t, int> visits;
  const auto rounds = experiments::MeasureInRounds(
      2, {.rounds = 3},
      [&](std::optional<std::size_t> which) -> std::optional<double> {
        if (!which) return 1;
        ++visits[*which];
        return *which == 0 ? std::nullopt : std::optional<double>(2);
      },
      kAlways);
  ASSERT_TRUE(rounds);
  EXPECT_EQ(visits[0], 1);
  EXPECT_EQ(visits[1], 3);
  EXPECT_TRUE(rounds->visits[0].empty());
  EXPECT_FALSE(experiments::MeasureInRounds(
      1, {}, [](std::optional<std::size_t>) { return std::optional<double>(); }, kAlways));
}

TEST(RoundsTest, AfterARoundItMayEnd) {
  int asked = 0;
  const auto rounds = experiments::MeasureInRounds(
      1, {.rounds = 9}, [](std::optional<std::size_t>) { return std::optional<double>(1); },
      [&] { return ++asked < 3; });
  ASSERT_TRUE(rounds);
  EXPECT_EQ(rounds->visits[0].size(), 3U);
}

// The first and the last of ten values are left out: mean 5.5. Winsorised 2, 2, 3, .., 8, 9, 9 with mean 5.5 and
// squares 2 (3.5^2 + 3.5^2 + 2.5^2 + 1.5^2 + 0.5^2) = 66.5; error sqrt(66.5 / (8 * 7)) = 1.08972; t(7, 0.975)
// = 2.364624.
TEST(TrimmedMeanTest, IsThatOfTukeyAndMcLaughlin) {
  const experiments::MeanOfRounds trimmed = experiments::MeanOver({1, 2, 3, 4, 5, 6, 7, 8, 9, 1000});
  EXPECT_DOUBLE_EQ(trimmed.mean, 5.5);
  ASSERT_TRUE(trimmed.interval);
  EXPECT_NEAR(trimmed.interval->high - 5.5, 2.364624 * 1.089725, 1e-5);
  EXPECT_NEAR(5.5 - trimmed.interval->low, 2.364624 * 1.089725, 1e-5);
  EXPECT_FALSE(experiments::MeanOver({1, 2}).interval);
  EXPECT_DOUBLE_EQ(experiments::MeanOver({1, 2}).mean, 1.5);
}

// The interval holds the truth about as often as it says.
TEST(TrimmedMeanTest, TheIntervalHoldsTheMeanNineteenTimesInTwenty) {
  Rng rng(3);
  int held = 0;
  for (int i = 0; i < 2000; ++i) {
    std::vector<double> values(10);
    for (double& value : values) value = rng.Uniform();
    const auto interval = experiments::MeanOver(values).interval;
    held += interval->low <= 0.5 && 0.5 <= interval->high ? 1 : 0;
  }
  EXPECT_NEAR(held / 2000.0, 0.95, 0.025);
}

}  // namespace
}  // namespace emplace
