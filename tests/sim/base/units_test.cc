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

TEST(UnitsTest, BytesBeyondTheKneeGoAtTheirOwnRate) {
  constexpr BytesPerSecond kSlow{1'000'000'000};  // a byte in a ns
  constexpr BytesPerSecond kFast{4'000'000'000};
  const TransferRate straight{.rate = kSlow, .knee = {}, .beyond = {}};
  EXPECT_EQ(TransferDuration(Bytes{1000}, straight), Duration(1000));
  const TransferRate bent{.rate = kSlow, .knee = {100}, .beyond = kFast};
  EXPECT_EQ(TransferDuration(Bytes{100}, bent), Duration(100));
  EXPECT_EQ(TransferDuration(Bytes{108}, bent), Duration(102));
  EXPECT_EQ(TransferDuration(Bytes{101}, bent), Duration(100));  // a quarter of a ns, rounded by itself
  EXPECT_EQ(TransferDuration(Bytes{102}, bent), Duration(101));  // half a ns
}

}  // namespace
}  // namespace emplace
