#include "profiler/op_gap.h"

#include <gtest/gtest.h>

#include "tests/testing/fake_hardware.h"

namespace emplace {
namespace {

TEST(OpGapTest, RunsAChainOnTheDeviceAndReportsWhatIsBetweenItsOps) {
  testing::FakeLog log;
  testing::FakeDevice device("cpu:0", "cpu-core", &log);
  const double gap = MeasureOpGap(device);
  EXPECT_GT(gap, 0);
  EXPECT_GE(log.runs().size(), 1000U);  // 500 ops, several steps
}

}  // namespace
}  // namespace emplace
