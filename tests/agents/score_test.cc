#include "agents/score.h"

#include <gtest/gtest.h>

#include "tests/testing/graphs.h"

namespace emplace {
namespace {

TEST(ScoreTest, WhatFitsBeatsWhatDoesNotThenLessOverflowThenMoreReward) {
  const Score fits{.fits = true, .overflow_bytes = 0, .reward = -9};
  const Score better{.fits = true, .overflow_bytes = 0, .reward = -8};
  const Score little{.fits = false, .overflow_bytes = 10, .reward = -100};
  const Score much{.fits = false, .overflow_bytes = 20, .reward = -1};
  EXPECT_TRUE(better.BetterThan(fits));
  EXPECT_TRUE(fits.BetterThan(little));
  EXPECT_TRUE(little.BetterThan(much));
  EXPECT_FALSE(fits.BetterThan(fits));
}

TEST(ScoreTest, OverflowIsSummedOverDevices) {
  const Cluster cluster = testing::MakeCluster(2, {}, 0, Bytes{100});
  Outcome outcome;
  outcome.result.fits_memory = false;
  outcome.result.peak_memory = {Bytes{130}, Bytes{105}};
  outcome.reward = -100;
  const Score score = ScoreOf(outcome, cluster);
  EXPECT_EQ(score.overflow_bytes, 35);
  EXPECT_DOUBLE_EQ(CostOf(score), 100 + 35e-9);
}

}  // namespace
}  // namespace emplace
