#include "sim/base/free_memory.h"

#include <gtest/gtest.h>

#include <vector>

namespace emplace::testing {
namespace {

TEST(FreeMemoryTest, LeavesNothingReserved) {
  std::vector<int> values(1000, 1);
  FreeMemory(&values);
  EXPECT_TRUE(values.empty());
  EXPECT_EQ(values.capacity(), 0U);
}

}  // namespace
}  // namespace emplace::testing
