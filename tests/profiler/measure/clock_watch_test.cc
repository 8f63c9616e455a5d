#include "profiler/measure/clock_watch.h"

#include <gtest/gtest.h>

#include <optional>

#include "tests/testing/fake_hardware.h"

namespace emplace {
namespace {

using ::emplace::testing::FakeDevice;
using ::emplace::testing::FakeLog;

TEST(ClockWatchTest, SaysHowOftenADeviceWasHeldBackAndAtWhichClocks) {
  FakeLog log;
  FakeDevice gpu("cuda:0", "h100", &log, /*is_cpu=*/false);
  FakeDevice other("cuda:1", "h100", &log, /*is_cpu=*/false);
  profiler::ClockWatch watch;
  watch.Look(gpu);  // its clock cannot be read
  EXPECT_EQ(watch.Advice(), "");
  other.clock = profiler::DeviceClock{.mhz = 1980, .held_back_by = {}};
  watch.Look(other);
  EXPECT_EQ(watch.Advice(), "");
  gpu.clock = profiler::DeviceClock{.mhz = 1980, .held_back_by = {}};
  watch.Look(gpu);
  profiler::ClockWatch later;
  gpu.clock = profiler::DeviceClock{.mhz = 1410, .held_back_by = {"temperature", "power limit"}};
  later.Look(gpu);
  gpu.clock = profiler::DeviceClock{.mhz = 1500, .held_back_by = {"power limit"}};
  later.Look(gpu);
  watch.Add(later);
  EXPECT_EQ(
      watch.Advice(),
      "the clock of cuda:0 was held back (power limit, temperature) in 2 of 3 measurements, at 1410 to 1980 MHz: a "
      "cooler GPU, or one with a higher limit, is faster");
}

}  // namespace
}  // namespace emplace
