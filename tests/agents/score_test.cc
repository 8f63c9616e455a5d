#include "agents/score.h"

#include <gtest/gtest.h>

#include <sstream>

#include "agents/saved_state.h"
#include "tests/testing/graphs.h"

namespace emplace {
namespace {

TEST(ScoreTest, WhatFitsBeatsWhatDoesNotThenLessOverflowThenMoreReward) {
  const agents::Score fits{.fits = true, .overflow_bytes = 0, .reward = -9};
  const agents::Score better{.fits = true, .overflow_bytes = 0, .reward = -8};
  const agents::Score little{.fits = false, .overflow_bytes = 10, .reward = -100};
  const agents::Score much{.fits = false, .overflow_bytes = 20, .reward = -1};
  EXPECT_TRUE(better.BetterThan(fits));
  EXPECT_TRUE(fits.BetterThan(little));
  EXPECT_TRUE(little.BetterThan(much));
  EXPECT_FALSE(fits.BetterThan(fits));
}

TEST(ScoreTest, OverflowIsSummedOverDevices) {
  const Cluster cluster = testing::MakeCluster(2, {}, 0, Bytes{100});
  agents::Outcome outcome;
  outcome.result.fits_memory = false;
  outcome.result.peak_memory = {Bytes{130}, Bytes{105}};
  outcome.reward = -100;
  const agents::Score score = agents::ScoreOf(outcome, cluster);
  EXPECT_EQ(score.overflow_bytes, 35);
  EXPECT_DOUBLE_EQ(agents::CostOf(score), 100 + 35e-9);
}

TEST(ScoreTest, TheBestIsKeptSavedAndLoaded) {
  Placement one(2);
  Placement two(2);
  two[MakeId<OpId>(1)] = MakeId<DeviceId>(1);
  agents::BestPlacement best;
  EXPECT_FALSE(best.value());
  std::stringstream nothing;
  agents::SaveState(nothing, best);
  EXPECT_TRUE(best.Keep(one, {.fits = true, .overflow_bytes = 0, .reward = -2}));
  EXPECT_FALSE(best.Keep(two, {.fits = false, .overflow_bytes = 8, .reward = -1}));
  EXPECT_EQ(best.value(), one);
  EXPECT_EQ(best.score().reward, -2);
  std::stringstream saved;
  agents::SaveState(saved, best);
  agents::BestPlacement loaded;
  agents::LoadState(saved, &loaded);
  EXPECT_EQ(loaded.value(), one);
  EXPECT_FALSE(loaded.Keep(two, {.fits = true, .overflow_bytes = 0, .reward = -2}));
  EXPECT_TRUE(loaded.Keep(two, {.fits = true, .overflow_bytes = 0, .reward = -1}));
  EXPECT_EQ(loaded.value(), two);
  agents::LoadState(nothing, &loaded);
  EXPECT_FALSE(loaded.value());
}

}  // namespace
}  // namespace emplace
