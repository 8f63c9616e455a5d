#include "experiments/plan/hardware_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/errors.h"
#include "tests/testing/graphs.h"

namespace emplace {
namespace {

using ::emplace::testing::ErrorOf;
using ::testing::HasSubstr;

TEST(RewardSourceTest, NamesGoBothWays) {
  for (const auto source : {experiments::RewardSource::kSimulator, experiments::RewardSource::kHardware,
                            experiments::RewardSource::kMixed}) {
    EXPECT_EQ(EnumOfName<experiments::RewardSource>(NameOf(source)), source);
  }
  EXPECT_FALSE(EnumOfName<experiments::RewardSource>("gpu"));
}

TEST(HardwareChoiceTest, TheSimulatorAloneNeedsNoHardware) {
  experiments::HardwareChoice choice;
  EXPECT_FALSE(choice.NeedsHardware());
  choice.validate_every = 3;
  EXPECT_TRUE(choice.NeedsHardware());
}

TEST(ClusterHardwareTest, DevicesThatAreNotThereOrOfAnotherKindAreRefused) {
  const Graph graph = testing::MakeChain(2, 1, 8);
  EXPECT_THAT(ErrorOf([&] { experiments::ClusterHardware(graph, testing::MakeCluster(1), {}); }),
              HasSubstr("cluster: gpu:0: is not a device"));
  const Cluster other = Cluster::Uniform("c", {{.name = "cpu:0", .kind = "k80", .memory = {}}}, {});
  const std::string problem = "cluster: device cpu:0 is of kind k80, the real one is cpu-core";
  EXPECT_EQ(ErrorOf([&] { experiments::ClusterHardware(graph, other, {}); }), problem);
  EXPECT_EQ(ErrorOf([&] { experiments::CheckRealDevices(other); }), problem);
}

}  // namespace
}  // namespace emplace
