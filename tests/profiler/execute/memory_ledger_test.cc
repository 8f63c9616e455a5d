#include "profiler/execute/memory_ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "profiler/hardware.h"

namespace emplace {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(MemoryLedgerTest, ThePeakIsTheLargestSum) {
  profiler::MemoryLedger ledger;
  ledger.Reset({100});
  ledger.Allocate({50}, 1);
  ledger.Allocate({30}, 2);
  ledger.Free({50}, 3);
  ledger.Allocate({40}, 4);
  EXPECT_EQ(ledger.peak().count, 180);  // 100 + 50 + 30; later 100 + 30 + 40
  EXPECT_THAT(ledger.samples(), ElementsAre(Pair(0, Bytes{100}), Pair(1, Bytes{150}), Pair(2, Bytes{180}),
                                            Pair(3, Bytes{130}), Pair(4, Bytes{170})));
}

TEST(MemoryLedgerTest, PastTheCapacityItThrows) {
  profiler::MemoryLedger ledger(Bytes{150});
  ledger.Reset({100});
  ledger.Allocate({50}, 1);
  try {
    ledger.Allocate({1}, 2);
    FAIL();
  } catch (const profiler::DeviceOutOfMemory& error) {
    EXPECT_STREQ(error.what(), "151 bytes are needed at once, the device has 150");
  }
  EXPECT_THROW(ledger.Reset({151}), profiler::DeviceOutOfMemory);
}

TEST(MemoryLedgerTest, ANewStepForgetsTheLast) {
  profiler::MemoryLedger ledger;
  ledger.Reset({0});
  ledger.Allocate({70}, 1);
  ledger.Reset({5});
  EXPECT_EQ(ledger.peak().count, 5);
  EXPECT_EQ(ledger.samples().size(), 1U);
}

}  // namespace
}  // namespace emplace
