#include "profiler/measure/clock_watch.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/fake_hardware.h"

namespace emplace {
namespace {

using ::emplace::testing::FakeDevice;
using ::emplace::testing::FakeLog;

TEST(ClockWatchTest, SaysHowOftenADeviceWasSlowedAndToWhichClock) {
  FakeLog log;
  FakeDevice gpu("cuda:0", "h100", &log, /*is_cpu=*/false);
  FakeDevice other("cuda:1", "h100", &log, /*is_cpu=*/false);
  profiler::ClockWatch watch;
  watch.Begin(gpu);  // its clock cannot be read
  watch.End(gpu);
  other.clock = profiler::DeviceClock{.mhz = 1980};
  watch.Begin(other);
  watch.End(other);
  EXPECT_EQ(watch.Advice(), "");
  gpu.clock = profiler::DeviceClock{.mhz = 1980};
  watch.Begin(gpu);
  watch.End(gpu);
  profiler::ClockWatch later;
  later.Begin(gpu);
  gpu.clock = profiler::DeviceClock{.mhz = 1410, .slowed_by = {"temperature", "power limit"}};
  later.End(gpu);
  gpu.clock = profiler::DeviceClock{.mhz = 1500, .slowed_by = {"power limit"}};
  later.Begin(gpu);
  later.End(gpu);
  watch.Add(later);
  EXPECT_EQ(
      watch.Advice(),
      "the clock of cuda:0 was slowed (power limit, temperature) in 2 of 3 measurements, to 1410 MHz: these times "
      "are not of a GPU at its full clock");
}

TEST(ClockWatchTest, WhatSlowedADeviceAndIsOverIsInItsSums) {
  FakeLog log;
  FakeDevice gpu("cuda:0", "h100", &log, /*is_cpu=*/false);
  profiler::ClockWatch watch;
  gpu.clock = profiler::DeviceClock{.mhz = 1700, .slowed_ns = {{"power limit", 100}, {"temperature", 7}}};
  watch.Begin(gpu);
  watch.End(gpu);
  EXPECT_EQ(watch.Advice(), "");
  watch.Begin(gpu);
  gpu.clock->slowed_ns["power limit"] = 101;
  watch.End(gpu);
  EXPECT_THAT(watch.Advice(), ::testing::HasSubstr("slowed (power limit) in 1 of 2 measurements, to 1700 MHz"));
}

}  // namespace
}  // namespace emplace
