#include "agents/reward.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include "sim/base/registry.h"
#include "tests/testing/errors.h"

namespace emplace {
namespace {

using ::emplace::testing::ErrorOf;

StepResult Result(double seconds, bool fits, std::int64_t peak_bytes = 0) {
  return {.step_time_micros = seconds * 1e6,
          .fits_memory = fits,
          .peak_memory = {Bytes{peak_bytes}, Bytes{0}},
          .start_micros = {}};
}

double RewardOf(std::string_view name, const StepResult& result) {
  const agents::RewardOptions options = agents::ParseReward(name);
  return agents::FindReward(options.name).reward(result, options);
}

TEST(RewardTest, RewardsFollowTheirSources) {
  EXPECT_DOUBLE_EQ(RewardOf("runtime", Result(4, true)), -4);
  EXPECT_DOUBLE_EQ(RewardOf("sqrt", Result(4, true)), -2);
  EXPECT_DOUBLE_EQ(RewardOf("log_runtime", Result(4, true)), -std::log(4.0));
  // 12.7 GB exceed 10.7 by 2 GB: 4 + 2 * 2 s.
  EXPECT_DOUBLE_EQ(RewardOf("memory_penalty", Result(4, false, 12'700'000'000)), -8);
  EXPECT_DOUBLE_EQ(RewardOf("memory_penalty", Result(4, true, 1'000)), -4);
  EXPECT_DOUBLE_EQ(RewardOf("log_memory_penalty", Result(4, false, 12'700'000'000)), -(std::log(4.0) + 4));
  EXPECT_DOUBLE_EQ(RewardOf("log_memory_penalty", Result(4, false, 30'000'000'000)), -10);
}

TEST(RewardTest, WhatDoesNotFitCountsAsOneHundredSeconds) {
  EXPECT_DOUBLE_EQ(RewardOf("runtime", Result(4, false)), -100);
  EXPECT_DOUBLE_EQ(RewardOf("sqrt", Result(4, false)), -10);                    // the planner's reward for a failure
  EXPECT_DOUBLE_EQ(RewardOf("log_runtime", Result(4, false)), -std::log(4.0));  // this reward ignores memory
}

TEST(RewardTest, EveryRewardPrefersTheFasterStep) {
  for (const agents::RewardEntry& entry : agents::AllRewards()) {
    EXPECT_GT(RewardOf(entry.name, Result(1, true)), RewardOf(entry.name, Result(2, true))) << entry.name;
    EXPECT_FALSE(entry.source.empty());
  }
}

TEST(RewardTest, AStepOfNoTimeIsFinite) { EXPECT_TRUE(std::isfinite(RewardOf("log_runtime", Result(0, true)))); }

TEST(RewardTest, OptionsBehindTheNameReplaceThoseOfTheSources) {
  // 12 GB exceed 8 by 4 GB: 4 s + 0.5 * 4 s.
  EXPECT_DOUBLE_EQ(RewardOf("memory_penalty:c=0.5,M=8", Result(4, true, 12'000'000'000)), -6);
  EXPECT_DOUBLE_EQ(RewardOf("log_memory_penalty:M=8", Result(1, true, 9'000'000'000)), -2);
  EXPECT_DOUBLE_EQ(RewardOf("sqrt:invalid=25", Result(4, false)), -5);
}

TEST(RewardTest, OptionsThatItDoesNotHaveAreRefused) {
  const auto refusal = [](std::string_view text) { return ErrorOf([text] { agents::ParseReward(text); }); };
  EXPECT_EQ(refusal("memory_penalty:x=1"), "memory_penalty.x: unknown option (c, M)");
  EXPECT_EQ(refusal("log_runtime:c=1"), "log_runtime.c: unknown option (log_runtime has none)");
  EXPECT_EQ(refusal("memory_penalty:c=1,c=2"), "memory_penalty: \"c\" is set twice (once)");
  for (const std::string bad : {"", "c", "c=1,", "=1"}) {
    EXPECT_NE(refusal("memory_penalty:" + bad).find("is not a setting (key=value)"), std::string::npos) << bad;
  }
  for (const std::string bad : {"c=-1", "c=", "c=1s", "M=nan", "c=inf"}) {
    EXPECT_EQ(refusal("memory_penalty:" + bad).find("memory_penalty"), 0) << bad;
  }
  EXPECT_EQ(refusal("memory_penalty:c=-1"), "memory_penalty: c must be 0..1e+09, got -1");
}

TEST(RewardTest, AnUnknownNameIsRefusedWithTheKnownOnes) {
  EXPECT_EQ(ErrorOf([] { agents::FindReward("speed"); }),
            "unknown reward \"speed\" (" + Listed(agents::AllRewards()) + ")");
}

}  // namespace
}  // namespace emplace
