#include "sim/base/units.h"

#include <gtest/gtest.h>

namespace emplace {
namespace {

TEST(UnitsTest, RealNumbersAreRoundedToTheNearestIntegerHalvesUp) {
  EXPECT_EQ(RoundToInteger(2.4), 2);
  EXPECT_EQ(RoundToInteger(2.5), 3);
  EXPECT_EQ(RoundToInteger(-2.5), -2);
  EXPECT_EQ(RoundToInteger(1e18), 1'000'000'000'000'000'000);
  EXPECT_EQ(DurationFromMicros(0.0005), Duration(1));  // half a ns
  EXPECT_EQ(MicrosFromDuration(Duration(1500)), 1.5);
  EXPECT_EQ(BytesFromGib(0.5).count, std::int64_t{1} << 29);
}

}  // namespace
}  // namespace emplace
