#include "profiler/measure/step_probe.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/testing/fake_hardware.h"

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
