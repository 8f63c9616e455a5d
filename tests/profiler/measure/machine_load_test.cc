#include "profiler/measure/machine_load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "tests/testing/fake_hardware.h"

namespace emplace::profiler {
namespace {

// user nice system idle iowait irq softirq steal guest guest_nice
constexpr std::string_view kStat =
    "cpu  1000 0 0 0 0 0 0 0 0 0\n"
    "cpu0 100 20 30 9000 500 4 6 50 0 0\n"
    "cpu1 10 0 0 9000 0 0 0\n"
    "cpu10 7777 0 0 0 0 0 0 7777 0 0\n"
    "intr 123\n";

TEST(MachineLoadTest, CoresAreReadFromTheSystemsCounts) {
  const auto first = ReadCoreSeconds(kStat, {0}, 100);
  ASSERT_TRUE(first);
  EXPECT_DOUBLE_EQ(first->busy, 1.6);
  EXPECT_DOUBLE_EQ(first->stolen, 0.5);
  const auto both = ReadCoreSeconds(kStat, {0, 1}, 100);
  ASSERT_TRUE(both);
  EXPECT_DOUBLE_EQ(both->busy, 1.7);
  EXPECT_DOUBLE_EQ(both->stolen, 0.5);
  EXPECT_FALSE(ReadCoreSeconds(kStat, {0, 2}, 100));
  EXPECT_FALSE(ReadCoreSeconds("", {0}, 100));
}

TEST(MachineLoadTest, AdviceIsGivenWhereOthersDidMuch) {
  EXPECT_EQ(
      AdviceOnLoad(0.9, 2),
      "other programs kept 0.90 of 2 cores busy meanwhile, so times are too long: run it again when they are done");
  EXPECT_EQ(AdviceOnLoad(0.05, 2), "");
  EXPECT_EQ(AdviceOnLoad(std::nullopt, 2), "");
}

TEST(MachineLoadTest, DevicesWithoutCoresAreNotWatched) {
  emplace::testing::FakeLog log;
  emplace::testing::FakeDevice device("cuda:0", "test-gpu", &log);
  const LoadWatch watch({&device});
  EXPECT_EQ(watch.num_cores(), 0U);
  EXPECT_FALSE(watch.OthersBusyCores());
}

}  // namespace
}  // namespace emplace::profiler
