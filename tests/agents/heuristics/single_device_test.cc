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
using ::emplace::testing::MakeMixedCluster;
using ::emplace::testing::MakeOp;
using ::emplace::testing::PlacedBy;
using ::testing::Each;
using ::testing::ElementsAre;

OpSpec OnKinds(const char* name, std::vector<std::pair<std::string, double>> times) {
  OpSpec spec = MakeOp(name, 0);
  spec.time_micros = std::nullopt;
  spec.kind_times = std::move(times);
  return spec;
}

TEST(SingleDeviceTest, EverythingIsOnTheFirstOfEqualAccelerators) {
  EXPECT_THAT(PlacedBy("single_device", MakeChain(4, 1, 4), MakeMixedCluster(3)), Each(1));
}

TEST(SingleDeviceTest, OpsThatMayNotGoThereGoToTheirFastestDevice) {
  const Graph graph = Build({OnKinds("a", {{"test-cpu", 1}}), OnKinds("b", {{"test-cpu", 1}, {"test-gpu", 9}})});
  EXPECT_THAT(PlacedBy("single_device", graph, MakeMixedCluster(1)), ElementsAre(0, 1));
}

TEST(SingleDeviceTest, TheDeviceCanBeNamed) {
  EXPECT_THAT(PlacedBy("single_device", MakeChain(2, 1, 4), MakeMixedCluster(3), {{"device", "gpu:2"}}), Each(3));
  EXPECT_THROW(PlacedBy("single_device", MakeChain(2, 1, 4), MakeMixedCluster(3), {{"device", "tpu"}}), InputError);
}

}  // namespace
}  // namespace emplace
