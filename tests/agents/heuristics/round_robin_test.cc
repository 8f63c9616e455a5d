#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/base/check.h"
#include "tests/testing/graphs.h"
#include "tests/testing/searches.h"

namespace emplace {
namespace {

using ::emplace::testing::MakeChain;
using ::emplace::testing::MakeMixedCluster;
using ::emplace::testing::PlacedBy;
using ::testing::ElementsAre;

TEST(RoundRobinTest, GroupsTakeTurnsOnTheAccelerators) {
  EXPECT_THAT(PlacedBy("round_robin", MakeChain(5, 1, 4), MakeMixedCluster(2)), ElementsAre(1, 2, 1, 2, 1));
}

}  // namespace
}  // namespace emplace
