#include "agents/reward.h"

#include <gtest/gtest.h>

#include <cmath>

#include "sim/check.h"

namespace emplace {
namespace {

StepResult Result(double seconds, bool fits, std::int64_t peak_bytes = 0) {
  return {.step_time_micros = seconds * 1e6,
          .fits_memory = fits,
          .peak_memory = {Bytes{peak_bytes}, Bytes{0}},
          .start_micros = {}};
}

double RewardOf(std::string_view name, const StepResult& result) {
  const RewardOptions options{.name = name};
  return FindReward(name).reward(result, options);
}

TEST(RewardTest, RewardsFollowTheirSources) {
  EXPECT_DOUBLE_EQ(RewardOf("runtime", Result(4, true)), -4);
  EXPECT_DOUBLE_EQ(RewardOf("sqrt", Result(4, true)), -2);
  EXPECT_DOUBLE_EQ(RewardOf("log_runtime", Result(4, true)), -std::log(4.0));
  // 12.7 GB are 2 GB above 10.7: 4 + 2 * 2 s.
  EXPECT_DOUBLE_EQ(RewardOf("memory_penalty", Result(4, false, 12'700'000'000)), -8);
  EXPECT_DOUBLE_EQ(RewardOf("memory_penalty", Result(4, true, 1'000)), -4);
  EXPECT_DOUBLE_EQ(RewardOf("log_memory_penalty", Result(4, false, 12'700'000'000)), -(std::log(4.0) + 4));
  EXPECT_DOUBLE_EQ(RewardOf("log_memory_penalty", Result(4, false, 30'000'000'000)), -10);
}

TEST(RewardTest, WhatDoesNotFitCountsAsOneHundredSeconds) {
  EXPECT_DOUBLE_EQ(RewardOf("runtime", Result(4, false)), -100);
  EXPECT_DOUBLE_EQ(RewardOf("sqrt", Result(4, false)), -10);                    // the planner's failing signal
  EXPECT_DOUBLE_EQ(RewardOf("log_runtime", Result(4, false)), -std::log(4.0));  // but here memory does not matter
}

TEST(RewardTest, EveryRewardPrefersTheFasterStep) {
  for (const RewardEntry& entry : AllRewards()) {
    EXPECT_GT(RewardOf(entry.name, Result(1, true)), RewardOf(entry.name, Result(2, true))) << entry.name;
    EXPECT_FALSE(entry.source.empty());
  }
}

TEST(RewardTest, AStepOfNoTimeIsFinite) { EXPECT_TRUE(std::isfinite(RewardOf("log_runtime", Result(0, true)))); }

TEST(RewardTest, AnUnknownNameIsRefusedWithTheKnownOnes) {
  try {
    FindReward("speed");
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "unknown reward \"speed\" (runtime, sqrt, log_runtime, memory_penalty, log_memory_penalty)");
  }
}

}  // namespace
}  // namespace emplace
