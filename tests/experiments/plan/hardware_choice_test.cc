#include "experiments/plan/hardware_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/errors.h"
#include "tests/testing/graphs.h"

namespace emplace {
namespace {

using ::emplace::testing::ErrorOf;
using ::testing::HasSubstr;

TEST(HardwareChoiceTest, SettingsSayHowStepsAreMeasured) {
  agents::SearchSettings settings;
  settings.steps = 7;
  settings.statistic = "mean";
  settings.interleave = true;
  const profiler::HardwareOptions options = experiments::HardwareOptionsOf(settings);
  EXPECT_EQ(options.warmups, 1U);
  EXPECT_EQ(options.steps, 7U);
  EXPECT_EQ(options.statistic, profiler::HardwareOptions::Statistic::kMean);
  EXPECT_TRUE(options.interleave);
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
