#include "profiler/measure/aggregate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "sim/base/check.h"

namespace emplace {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(const profiler::OpSamples& samples) {
  try {
    profiler::Aggregate(samples);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(SpreadTest, IsTheWidthOfTheMiddleOverTheMedian) {
  // 10 .. 20 in steps of 1: p10 = 11, p90 = 19, median 15.
  std::vector<double> micros;
  for (int i = 20; i >= 10; --i) micros.push_back(i);
  EXPECT_DOUBLE_EQ(profiler::Spread(micros), 8.0 / 15.0);
}

TEST(SpreadTest, OfEqualSamplesIsZeroEvenIfTheyAreZero) {
  EXPECT_EQ(profiler::Spread({3, 3, 3}), 0);
  EXPECT_EQ(profiler::Spread({0, 0, 0}), 0);
}

TEST(SpreadTest, IsInfiniteWhereOnlyTheMedianIsZero) { EXPECT_TRUE(std::isinf(profiler::Spread({0, 0, 10}))); }

TEST(AggregateTest, MakesTheEntryOfAProfile) {
  // 30 10 20 50 40: median 30; p10 at position 0.4 is 10 + 0.4 * 10, p90 at 3.6 is 40 + 0.6 * 10.
  const Profile::OpEntry entry = profiler::Aggregate({.signature = "matmul(f32[2,2],f32[2,2])",
                                                      .device_kind = "h200",
                                                      .micros = {30, 10, 20, 50, 40},
                                                      .kernels = 2,
                                                      .temp = Bytes{4096}});
  EXPECT_EQ(entry.signature, "matmul(f32[2,2],f32[2,2])");
  EXPECT_EQ(entry.device, "h200");
  EXPECT_EQ(entry.samples, 5);
  EXPECT_DOUBLE_EQ(entry.median_micros, 30);
  EXPECT_DOUBLE_EQ(entry.mean_micros.value(), 30);
  EXPECT_DOUBLE_EQ(entry.p10_micros.value(), 14);
  EXPECT_DOUBLE_EQ(entry.p90_micros.value(), 46);
  EXPECT_EQ(entry.kernels, 2);
  EXPECT_EQ(entry.temp, Bytes{4096});
}

TEST(AggregateTest, ACpuHasNoKernels) {
  EXPECT_FALSE(
      profiler::Aggregate({.signature = "relu(f32[2])", .device_kind = "cpu-core", .micros = {1}}).kernels.has_value());
}

TEST(AggregateTest, RefusesWhatIsNoTimeAndNamesTheSignature) {
  EXPECT_EQ(ErrorOf({.signature = "relu(f32[2])", .device_kind = "h200"}),
            "\"relu(f32[2])\" on \"h200\": no sample was measured");
  EXPECT_THAT(ErrorOf({.signature = "relu(f32[2])", .device_kind = "h200", .micros = {1, -2}}),
              HasSubstr("\"relu(f32[2])\" on \"h200\": sample 1 of 2 is -2.000000 us"));
  EXPECT_THAT(ErrorOf({.signature = "r", .device_kind = "h200", .micros = {std::nan("")}}), HasSubstr("nan us"));
  EXPECT_THAT(ErrorOf({.signature = "r", .micros = {std::numeric_limits<double>::infinity()}}), HasSubstr("inf us"));
}

TEST(AggregateGapTest, IsTheMedian) { EXPECT_DOUBLE_EQ(profiler::AggregateGap({9, 1, 2, 4}, "h200"), 3); }

TEST(AggregateGapTest, WithoutGapsIsRefused) {
  // 0 would mean that the device is never idle.
  try {
    profiler::AggregateGap({}, "h200");
    FAIL() << "no error";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "op_gap_us of \"h200\": no gap was measured");
  }
}

}  // namespace
}  // namespace emplace
