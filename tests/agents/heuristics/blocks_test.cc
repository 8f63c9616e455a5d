#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/base/check.h"
#include "tests/testing/graphs.h"
#include "tests/testing/searches.h"

namespace emplace {
namespace {

using ::emplace::testing::Build;
using ::emplace::testing::MakeChain;
using ::emplace::testing::MakeCluster;
using ::emplace::testing::MakeOp;
using ::emplace::testing::PlacedBy;
using ::testing::Each;
using ::testing::ElementsAre;

TEST(BlocksTest, BlocksTakeEqualTime) {
  // 6, 1, 1, 2, 2 us: half of 12 us is the first op; the rest makes the other half.
  const Graph graph = Build(
      {MakeOp("a", 6), MakeOp("b", 1, {"a"}), MakeOp("c", 1, {"b"}), MakeOp("d", 2, {"c"}), MakeOp("e", 2, {"d"})});
  EXPECT_THAT(PlacedBy("blocks", graph, MakeCluster(2)), ElementsAre(0, 1, 1, 1, 1));
}

TEST(BlocksTest, OpsOfNoTimeAtAllAreOnOneDevice) {
  EXPECT_THAT(PlacedBy("blocks", MakeChain(3, 0, 4), MakeCluster(2)), Each(0));
}

}  // namespace
}  // namespace emplace
