#include "agents/throughput/stage_costs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "tests/testing/graphs.h"

namespace emplace::testing {
namespace {

using agents::MakeStageCosts;
using agents::MaxLoad;
using agents::StageCosts;
using agents::StageLoad;

constexpr auto kCpu = MakeId<DeviceId>(0);
constexpr auto kFirst = MakeId<DeviceId>(1);
constexpr auto kSecond = MakeId<DeviceId>(2);

// Ops a, b, c, d of a diamond are numbered in this order.
Placement PlacedOn(std::vector<DeviceId> devices) { return Placement(std::move(devices)); }

StageCosts CostsOf(const Graph& graph, const Cluster& cluster, const agents::StageCostOptions& options = {}) {
  return MakeStageCosts(graph, cluster, MeasuredCosts(graph, cluster), options);
}

TEST(StageCostsTest, DevicesThatAreAlikeAreOneClass) {
  const StageCosts costs = CostsOf(MakeDiamond(10, 1000), MakeMixedCluster(2));
  ASSERT_EQ(costs.classes.size(), 2U);
  EXPECT_EQ(costs.classes[0].devices, std::vector{kCpu});
  EXPECT_EQ(costs.classes[1].devices, (std::vector{kFirst, kSecond}));
  EXPECT_EQ(costs.classes[1].op_micros, std::vector<double>(4, 10));
  EXPECT_EQ(costs.num_devices(), 3U);
  EXPECT_EQ(costs.num_ops(), 4U);
}

TEST(StageCostsTest, MemoryAndLinksSetClassesApart) {
  const Graph graph = MakeDiamond(10, 1000);
  std::vector<Device> devices;
  for (const char* const name : {"gpu:0", "gpu:1", "gpu:2"})
    devices.push_back({.name = name, .kind = "test-gpu", .memory = std::nullopt});
  const Link link{.bandwidth_gb_per_s = 1, .latency_micros = 0, .gap_micros = 0};
  EXPECT_EQ(CostsOf(graph, Cluster::Uniform("c", devices, link)).classes.size(), 1U);
  // The last device is farther from both others.
  std::vector<Link> links(9, link);
  for (const std::size_t i : {2U, 5U, 6U, 7U}) links[i].bandwidth_gb_per_s = 0.5;
  const StageCosts far = CostsOf(graph, Cluster("c", "", devices, links, Channels::kPerDevice));
  ASSERT_EQ(far.classes.size(), 2U);
  EXPECT_EQ(far.crossings[0].micros, (std::vector<double>{1.5, 2}));
  devices[1].memory = Bytes{5};
  const StageCosts small = CostsOf(graph, Cluster::Uniform("c", devices, link));
  ASSERT_EQ(small.classes.size(), 2U);
  EXPECT_EQ(small.classes[1].memory, Bytes{5});
  EXPECT_EQ(
      CostsOf(graph, Cluster::Uniform("c", devices, link), {.memory = agents::StageMemory::kNone}).classes[1].memory,
      std::nullopt);
}

TEST(StageCostsTest, EachDevicePaysOnceForATensor) {
  // One tensor of 1 us goes from a to b and c, one from each of these to d.
  const Graph graph = MakeDiamond(10, 1000);
  const Cluster cluster = MakeMixedCluster(3);
  const StageCosts costs = CostsOf(graph, cluster);
  // b and c on one device: it takes a's tensor in once, and sends two.
  const std::vector<StageLoad> loads =
      agents::StageLoads(costs, PlacedOn({kFirst, kSecond, kSecond, MakeId<DeviceId>(3)}));
  EXPECT_EQ(loads[1].op_micros, 10);
  EXPECT_EQ(loads[1].crossing_micros, 1);
  EXPECT_EQ(loads[2].op_micros, 20);
  EXPECT_EQ(loads[2].crossing_micros, 3);
  EXPECT_EQ(loads[2].micros(), 23);
  EXPECT_EQ(loads[3].crossing_micros, 2);
  // To two devices, it is still sent once.
  const std::vector<StageLoad> spread =
      agents::StageLoads(costs, PlacedOn({kFirst, kSecond, MakeId<DeviceId>(3), kFirst}));
  EXPECT_EQ(spread[1].crossing_micros, 3);
  EXPECT_EQ(spread[2].crossing_micros, 2);
  EXPECT_EQ(MaxLoad(costs, PlacedOn({kFirst, kSecond, MakeId<DeviceId>(3), kFirst})), 23);
  EXPECT_EQ(MaxLoad(graph, cluster, MeasuredCosts(graph, cluster), Placement(4, kFirst)), 40);
}

TEST(StageCostsTest, CpusPayNothing) {
  const StageCosts costs = CostsOf(MakeDiamond(10, 1000), MakeMixedCluster(1));
  const std::vector<StageLoad> loads = agents::StageLoads(costs, PlacedOn({kCpu, kCpu, kFirst, kFirst}));
  EXPECT_EQ(loads[0].micros(), 20);
  EXPECT_EQ(loads[1].micros(), 22);
}

TEST(StageCostsTest, TheLinksToTheHostMayCount) {
  const Graph graph = MakeDiamond(10, 1000);
  std::vector<Device> devices = {{.name = "cpu:0", .kind = "test-cpu", .memory = std::nullopt, .is_cpu = true},
                                 {.name = "gpu:0", .kind = "test-gpu", .memory = std::nullopt},
                                 {.name = "gpu:1", .kind = "test-gpu", .memory = std::nullopt}};
  const Link direct{.bandwidth_gb_per_s = 1, .latency_micros = 3, .gap_micros = 0};
  std::vector<Link> links(9, direct);
  for (const std::size_t i : {1U, 2U, 3U, 6U}) links[i].bandwidth_gb_per_s = 0.25;
  const Cluster cluster("c", "", devices, links, Channels::kPerDevice);
  EXPECT_EQ(CostsOf(graph, cluster).crossings[0].micros, (std::vector<double>{0, 4}));
  EXPECT_EQ(CostsOf(graph, cluster, {.link = agents::CrossingLink::kHost}).crossings[0].micros,
            (std::vector<double>{0, 7}));
  // Without CPUs there is no host to go through.
  const Cluster no_host = cluster.Keep({"gpu:0", "gpu:1"});
  EXPECT_EQ(CostsOf(graph, no_host, {.link = agents::CrossingLink::kHost}).crossings[0].micros,
            (std::vector<double>{4}));
}

TEST(StageCostsTest, OpsThatMayNotRunAreNeverDone) {
  OpSpec op = MakeOp("a", 0);
  op.time_micros = std::nullopt;
  op.kind_times = {{"test-cpu", 1}};
  const StageCosts costs = CostsOf(Build({op}), MakeMixedCluster(1));
  EXPECT_TRUE(std::isnan(costs.classes[1].op_micros[0]));
  EXPECT_EQ(MaxLoad(costs, Placement(1, kCpu)), 1);
  EXPECT_TRUE(std::isinf(MaxLoad(costs, Placement(1, kFirst))));
}

TEST(StageCostsTest, BytesAreThoseThatAreAskedFor) {
  OpSpec op = MakeOp("a", 1, {}, {100, 50});
  op.persistent = Bytes{7};
  op.temp = Bytes{3};
  const Graph graph = Build({op});
  const Cluster cluster = MakeCluster(1, {.bandwidth_gb_per_s = 1}, 0, Bytes{1000});
  EXPECT_EQ(CostsOf(graph, cluster).bytes[0], Bytes{160});
  const StageCosts persistent = CostsOf(graph, cluster, {.memory = agents::StageMemory::kPersistent});
  EXPECT_EQ(persistent.bytes[0], Bytes{7});
  EXPECT_EQ(persistent.classes[0].memory, Bytes{1000});
  EXPECT_EQ(agents::StageLoads(persistent, Placement(1))[0].bytes, Bytes{7});
}

TEST(StageCostsTest, AFilesCostsReplaceThoseOfLinks) {
  // Two outputs, read by b, and by b and c: one crossing.
  const Graph graph =
      Build({MakeOp("a", 10, {}, {1000, 2000}), MakeOp("b", 10, {"a:0", "a:1"}), MakeOp("c", 10, {"a:1"})});
  const Cluster cluster = MakeMixedCluster(2);
  StageCosts costs = CostsOf(graph, cluster);
  EXPECT_EQ(costs.crossings.size(), 2U);
  agents::SetCrossings(graph, cluster, std::vector<double>{5, 6, 7}, &costs);
  ASSERT_EQ(costs.crossings.size(), 1U);
  EXPECT_EQ(costs.crossings[0].producer, MakeId<OpId>(0));
  EXPECT_EQ(costs.crossings[0].consumers, (std::vector{MakeId<OpId>(1), MakeId<OpId>(2)}));
  EXPECT_EQ(costs.crossings[0].micros, (std::vector<double>{0, 5}));
  EXPECT_EQ(MaxLoad(costs, PlacedOn({kFirst, kSecond, kSecond})), 25);
}

TEST(StageCostsTest, NothingTakesNoTime) { EXPECT_EQ(MaxLoad(CostsOf(Graph(), MakeCluster(2)), Placement(0)), 0); }

}  // namespace
}  // namespace emplace::testing
