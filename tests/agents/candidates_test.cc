#include "agents/candidates.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "sim/grouping.h"
#include "sim/simulator.h"
#include "tests/testing/graphs.h"
#include "tests/testing/observations.h"

namespace emplace {
namespace {

TEST(CandidatesTest, SearchesTryAcceleratorsOrWhereverAGroupMayGo) {
  GraphBuilder builder("g");
  OpSpec cpu_only = testing::MakeOp("a", 0);
  cpu_only.time_micros = std::nullopt;
  cpu_only.kind_times = {{"test-cpu", 1}};
  builder.Add(cpu_only);
  builder.Add(testing::MakeOp("b", 1));
  const agents::Observation seen = testing::MakeObservation(builder.Build(), testing::MakeMixedCluster(2));
  const auto devices = agents::SearchDevices(seen, false);
  EXPECT_EQ(devices[0], std::vector<DeviceId>{MakeId<DeviceId>(0)});
  EXPECT_EQ(devices[1], (std::vector<DeviceId>{MakeId<DeviceId>(1), MakeId<DeviceId>(2)}));
  EXPECT_EQ(agents::SearchDevices(seen, true)[1].size(), 3U);
}

TEST(CandidatesTest, OneDeviceIsTheFastestOrTheFirst) {
  // Ops of kind "relu" are faster on the CPU, those of kind "tanh" on the accelerator.
  const agents::Observation seen =
      testing::MakeObservation(testing::MakeTwoChainsOfKinds(), testing::MakeMixedCluster(2));
  const std::vector<DeviceId> all = agents::AllDevices(seen.cluster);
  const Placement first = agents::OnFirstAccelerator(seen);
  EXPECT_EQ(first, Placement(seen.num_groups(), DeviceId{1}));
  EXPECT_EQ(agents::OnOneOf(seen, seen.accelerators), first) << "of equal ones the first";
  double cpu = 0;
  double accelerator = 0;
  for (std::size_t group = 0; group < seen.num_groups(); ++group) {
    cpu += seen.TimeMicros(group, 0);
    accelerator += seen.TimeMicros(group, 1);
  }
  EXPECT_EQ(agents::OnOneOf(seen, all), Placement(seen.num_groups(), DeviceId{cpu <= accelerator ? 0U : 1U}));
  EXPECT_EQ(agents::MaskOf(std::vector<DeviceId>{DeviceId{2}, DeviceId{0}}, 3), (std::vector<std::uint8_t>{1, 0, 1}));
}

TEST(CandidatesTest, AStartOfGroupsIsWhereMostOfTheirTimeIs) {
  const Graph graph = testing::MakeChain(4, 1, 4);
  const Cluster cluster = testing::MakeCluster(2);
  const CostTable costs = testing::MeasuredCosts(graph, cluster);
  const Simulator simulator(graph, cluster, costs);
  const std::vector<std::size_t> labels = {0, 0, 0, 1};
  agents::Environment env(graph, cluster, costs, Grouping(graph, labels), simulator);
  EXPECT_EQ(agents::StartOf(env), Placement(2)) << "without one: all on one accelerator";
  env.SetStart(Placement({DeviceId{1}, DeviceId{0}, DeviceId{1}, DeviceId{0}}));
  EXPECT_EQ(agents::StartOf(env), Placement({DeviceId{1}, DeviceId{0}}));
}

}  // namespace
}  // namespace emplace
