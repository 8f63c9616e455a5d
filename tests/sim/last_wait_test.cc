#include "sim/last_wait.h"

#include <gtest/gtest.h>

namespace emplace {
namespace {

TEST(LastWaitTest, TheLastToBeOverCountsAndOfSeveralTheFirst) {
  LastWait<char> last;
  EXPECT_FALSE(last.what());
  last.Consider('a', -1);
  last.Consider('b', 3);
  last.Consider('c', 3);
  last.Consider('d', 2);
  EXPECT_EQ(last.what(), 'b');
  EXPECT_EQ(last.over(), 3);
}

}  // namespace
}  // namespace emplace
