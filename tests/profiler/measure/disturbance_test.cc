#include "profiler/measure/disturbance.h"
#include "tests/testing/fake_hardware.h"

#include <gtest/gtest.h>
#include <vector>

namespace emplace {
namespace {

using Seconds = std::chrono::duration<double>;

// The time `seconds` after the epoch.
profiler::DisturbanceWatch::Time At(double seconds) {
  return profiler::DisturbanceWatch::Time() +
         std::chrono::duration_cast<profiler::DisturbanceWatch::Time::duration>(Seconds(seconds));
}

TEST(DisturbanceWatchTest, SlowerThanTheFastestOfTheLastMinute) {
  profiler::DisturbanceWatch watch;
  EXPECT_EQ(watch.Slowdown(30, At(0)), 1);  // no earlier probes
  EXPECT_EQ(watch.Slowdown(20, At(1)), 1);
  EXPECT_EQ(watch.Slowdown(30, At(2)), 1.5);
  EXPECT_EQ(watch.Slowdown(25, At(50)), 1.25);
  EXPECT_EQ(watch.Slowdown(30, At(60.9)), 1.5);
  EXPECT_EQ(watch.Slowdown(30, At(61.1)), 1.2);  // the 20 has expired; 25 is the fastest now
  EXPECT_EQ(watch.Slowdown(10, At(62)), 1);
}

TEST(DisturbanceWatchTest, ACoreThatIsSlowForGoodIsCalmAgainAfterAMinute) {
  profiler::DisturbanceWatch watch;
  EXPECT_EQ(watch.Slowdown(10, At(0)), 1);
  for (int second = 1; second <= 60; ++second)
    EXPECT_GT(watch.Slowdown(15, At(second)), profiler::kCalmSlowdown) << second;
  EXPECT_EQ(watch.Slowdown(15, At(61)), 1);
}

TEST(DisturbanceWatchTest, ACoreThatIsSlowFromTheBeginningIsSlowerThanWasKnown) {
  EXPECT_EQ(profiler::DisturbanceWatch().fastest_micros(), std::nullopt);
  profiler::DisturbanceWatch watch(10);
  EXPECT_EQ(watch.fastest_micros(), 10);
  EXPECT_EQ(watch.Slowdown(15, At(0)), 1.5);
  EXPECT_EQ(watch.Slowdown(15, At(100)), 1.5);  // known probes are not forgotten
  EXPECT_EQ(watch.Slowdown(8, At(101)), 1);
  EXPECT_EQ(watch.fastest_micros(), 8);
}

TEST(CoreProbeTest, TakesTime) {
  const double micros = profiler::CoreProbeMicros();
  EXPECT_GT(micros, 1);
  EXPECT_LT(micros, 1e6);
}

}  // namespace
}  // namespace emplace

namespace emplace {
namespace {

using ::emplace::testing::FakeDevice;
using ::emplace::testing::FakeLog;

TEST(StepProbeTest, AStepIsAsSlowAsTheProbesBeforeWithinAndAfterIt) {
  FakeLog log;
  FakeDevice device("cpu:0", "cpu-core", &log);
  double micros = 10;
  device.probe = [&] { return micros; };
  profiler::StepProbe probe;
  EXPECT_EQ(probe.Slowdown(), 1);
  probe.Probe(device);
  probe.BeginStep();
  micros = 20;
  probe.ProbeWithin(device, profiler::StepProbe::kEveryMicros / 2);  // too soon
  EXPECT_EQ(probe.Slowdown(), 1);
  probe.ProbeWithin(device, profiler::StepProbe::kEveryMicros);
  micros = 30;
  probe.Probe(device);
  EXPECT_DOUBLE_EQ(probe.Slowdown(), (1 + 2 + 3) / 3.0);
  probe.BeginStep();
  EXPECT_DOUBLE_EQ(probe.Slowdown(), 3);  // the probe after the last step is also the one before this step
}

TEST(StepProbeTest, ADeviceWithoutProbesIsNeverSlow) {
  FakeLog log;
  FakeDevice device("cuda:0", "h200", &log, /*is_cpu=*/false);
  profiler::StepProbe probe;
  probe.BeginStep();
  probe.Probe(device);
  probe.ProbeWithin(device, 1e6);
  EXPECT_EQ(probe.Slowdown(), 1);
}

}  // namespace
}  // namespace emplace
