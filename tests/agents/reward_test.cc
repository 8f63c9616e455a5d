#include "agents/reward.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/registry.h"
#include "tests/testing/errors.h"
#include "tests/testing/graphs.h"

namespace emplace {
namespace {

using ::emplace::testing::ErrorOf;

StepResult Result(double seconds, bool fits, std::int64_t peak_bytes = 0) {
  return {.step_time_micros = seconds * 1e6,
          .fits_memory = fits,
          .peak_memory = {Bytes{peak_bytes}, Bytes{0}},
          .start_micros = {}};
}

// Both devices have 10.7 GB.
double RewardOf(std::string_view name, const StepResult& result,
                const std::vector<std::optional<Bytes>>& memory = {Bytes{10'700'000'000}, Bytes{10'700'000'000}}) {
  agents::RewardOptions options = agents::ParseReward(name);
  options.memory = memory;
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

TEST(RewardTest, ARelativeCostIsATimeAndWhatExceedsMemory) {
  const agents::RelativeCost cost{
      .memory = {Bytes{100}, std::nullopt, Bytes{50}}, .baseline_micros = 2, .memory_penalty = 3};
  EXPECT_EQ(cost.SmallestMemory(), Bytes{50});
  EXPECT_EQ(cost.Overflow(std::vector<std::int64_t>{100, 1000, 50}), 0);
  EXPECT_EQ(cost.Overflow(std::vector<std::int64_t>{110, 1000, 65}), 25);
  EXPECT_DOUBLE_EQ(cost.Cost(5000, 0), 2.5);
  EXPECT_DOUBLE_EQ(cost.Cost(5000, 25), 4);
  EXPECT_EQ(agents::RelativeCost{.memory = {std::nullopt}}.SmallestMemory(), std::nullopt);
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

TEST(RewardTest, TheMemoryOfAPenaltyIsThatOfTheDevices) {
  const std::vector<std::optional<Bytes>> large = {Bytes{84'800'000'000}, Bytes{84'800'000'000}};
  const std::vector<std::optional<Bytes>> small = {Bytes{5'600'000'000}, Bytes{5'600'000'000}};
  // 61 GB fit on a card of 84.8 GB: the reward is that of the time. With M = 10.7 GB it was -10, whatever the time.
  EXPECT_DOUBLE_EQ(RewardOf("log_memory_penalty", Result(0.4, true, 61'000'000'000), large), -std::log(0.4));
  EXPECT_DOUBLE_EQ(RewardOf("log_memory_penalty:M=10.7", Result(0.4, true, 61'000'000'000), large), -10);
  EXPECT_DOUBLE_EQ(RewardOf("memory_penalty", Result(0.4, true, 61'000'000'000), large), -0.4);
  // 6.6 GB do not fit on one of 5.6 GB, though they are less than 10.7.
  EXPECT_DOUBLE_EQ(RewardOf("memory_penalty", Result(4, false, 6'600'000'000), small), -6);
  EXPECT_DOUBLE_EQ(RewardOf("memory_penalty:M=10.7", Result(4, false, 6'600'000'000), small), -4);
}

TEST(RewardTest, TheDeviceThatExceedsItsMemoryMostCounts) {
  const StepResult result{.step_time_micros = 1e6,
                          .fits_memory = false,
                          .peak_memory = {Bytes{30'000'000'000}, Bytes{12'000'000'000}},
                          .start_micros = {}};
  EXPECT_DOUBLE_EQ(RewardOf("memory_penalty", result, {Bytes{500'000'000'000}, Bytes{10'000'000'000}}), -5);
  EXPECT_DOUBLE_EQ(RewardOf("memory_penalty", result, {std::nullopt, Bytes{10'000'000'000}}), -5);
  EXPECT_DOUBLE_EQ(RewardOf("memory_penalty", result, {std::nullopt, std::nullopt}), -1);
  EXPECT_DOUBLE_EQ(RewardOf("memory_penalty:M=capacity", result, {std::nullopt, Bytes{11'000'000'000}}), -3);
  EXPECT_DOUBLE_EQ(RewardOf("memory_penalty:M=28", result, {std::nullopt, std::nullopt}), -5);
}

TEST(RewardTest, SomeRewardsCountATimeForWhatDoesNotFit) {
  EXPECT_EQ(agents::InvalidMicros(agents::ParseReward("runtime")), 100e6);
  EXPECT_EQ(agents::InvalidMicros(agents::ParseReward("sqrt:invalid=5")), 5e6);
  EXPECT_EQ(agents::InvalidMicros(agents::ParseReward("memory_penalty")), std::nullopt);
}

TEST(RewardTest, AFloorIsWhatTheRewardFallsToAndNoFurther) {
  for (const agents::RewardEntry& entry : agents::AllRewards()) {
    const double worst = RewardOf(entry.name, Result(1e12, false, 1'000'000'000'000'000));
    EXPECT_GE(worst, entry.floor) << entry.name;
    if (std::isfinite(entry.floor)) {
      EXPECT_EQ(worst, entry.floor) << entry.name;
    }
  }
  EXPECT_FALSE(agents::IsMostlySaturated(0, 0));
  EXPECT_FALSE(agents::IsMostlySaturated(2, 4));
  EXPECT_TRUE(agents::IsMostlySaturated(3, 4));
}

TEST(RewardTest, AMemoryIsNamedWhereTheRewardHasOne) {
  EXPECT_EQ(agents::WithPenaltyMemory("memory_penalty", "10.7"), "memory_penalty:M=10.7");
  EXPECT_EQ(agents::WithPenaltyMemory("memory_penalty:c=3", agents::kCapacity), "memory_penalty:c=3,M=capacity");
  EXPECT_EQ(agents::WithPenaltyMemory("log_memory_penalty:M=8", "10.7"), "log_memory_penalty:M=8");
  EXPECT_EQ(agents::WithPenaltyMemory("sqrt", "10.7"), "sqrt");
  const Cluster cluster = testing::MakeCluster(2, {.bandwidth_gb_per_s = 1}, 0, Bytes{7});
  EXPECT_EQ(agents::MemoryOf(cluster), (std::vector<std::optional<Bytes>>{Bytes{7}, Bytes{7}}));
  EXPECT_EQ(agents::MemoryOf(testing::MakeCluster(1)), (std::vector<std::optional<Bytes>>{std::nullopt}));
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
