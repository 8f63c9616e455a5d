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
using ::emplace::testing::MakeCluster;
using ::emplace::testing::MakeMixedCluster;
using ::emplace::testing::PlacedBy;
using ::testing::Each;

TEST(CpuOnlyTest, EverythingIsOnTheCpu) {
  EXPECT_THAT(PlacedBy("cpu_only", MakeChain(4, 1, 4), MakeMixedCluster(3)), Each(0));
}

TEST(CpuOnlyTest, AClusterWithoutACpuIsRefused) {
  EXPECT_THROW(PlacedBy("cpu_only", MakeChain(2, 1, 4), MakeCluster(2)), InputError);
}

}  // namespace
}  // namespace emplace
