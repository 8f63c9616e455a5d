#include "profiler/machine/op_gap.h"

#include <gtest/gtest.h>

#include "tests/testing/fake_hardware.h"

namespace emplace {
namespace {

TEST(OpGapTest, RunsAChainOnTheDeviceAndReportsWhatIsBetweenItsOps) {
  testing::FakeLog log;
  testing::FakeDevice device("cpu:0", "cpu-core", &log);
  const double gap = profiler::MeasureOpGap(device);
  EXPECT_GT(gap, 0);
  EXPECT_GE(log.runs().size(), 1000U);  // 500 ops, several steps
}

TEST(OpGapTest, OfADeviceThatRunsBehindItsHostTheChainIsHeldAgainstTheCallsAlone) {
  testing::FakeLog log;
  testing::FakeDevice device("cuda:0", "gpu", &log, false);
  const double of_chain = profiler::MeasureOpGap(device);
  const std::size_t runs_of_chain = log.runs().size();
  EXPECT_GE(of_chain, 0);
  EXPECT_GE(profiler::MeasureHostGap(device), 0);
  EXPECT_EQ(log.runs().size(), 2 * runs_of_chain + 500);
}

}  // namespace
}  // namespace emplace
