#include "profiler/gpu_clocks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace emplace {
namespace {

TEST(GpuClocksTest, TheClockAndWhatSlowsItAreRead) {
  const profiler::GpuClocks clocks(EMPLACE_FAKE_NVIDIA_PATH);
  const auto clock = clocks.Read("0000:19:00.0");
  ASSERT_TRUE(clock);
  EXPECT_EQ(clock->mhz, 1410);
  EXPECT_THAT(clock->slowed_by, ::testing::ElementsAre("power limit", "temperature (hardware)"));  // not idleness
  EXPECT_THAT(clock->slowed_ns, ::testing::ElementsAre(::testing::Pair("power limit", 1005)));
  EXPECT_FALSE(clocks.Read("0000:20:00.0"));
  EXPECT_FALSE(clocks.Read(""));
}

TEST(GpuClocksTest, WithoutNvmlNothingIsRead) {
  EXPECT_FALSE(profiler::GpuClocks("libno-such-nvml.so.1").Read("0000:19:00.0"));
  EXPECT_FALSE(profiler::TheseGpuClocks().Read("no such GPU"));
}

}  // namespace
}  // namespace emplace
