#include "sim/bounds.h"

#include <gtest/gtest.h>

#include <vector>

#include "tests/testing/graphs.h"

namespace emplace {
namespace {

using testing::MakeChain;
using testing::MakeCluster;
using testing::MakeDiamond;
using testing::MakeMixedCluster;
using testing::MakeOp;
using testing::MeasuredCosts;

TEST(BoundsTest, TheCriticalPathOfADiamondIsThreeOpsAndItsWorkFour) {
  const Graph graph = MakeDiamond(5, 1000);
  const Cluster cluster = MakeCluster(2);
  const Bounds bounds = ComputeBounds(graph, cluster, MeasuredCosts(graph, cluster));
  EXPECT_EQ(bounds.critical_path_micros, 15);  // a, b, d: transfers are free
  EXPECT_EQ(bounds.work_micros, 20);           // a, b, c, d
  EXPECT_EQ(bounds.lower_bound_micros, 15);    // more than 20 / 2
}

TEST(BoundsTest, RepeatedOpsCountAsOftenAsTheyRun) {
  const Graph graph = MakeDiamond(5, 1000);
  const Cluster cluster = MakeCluster(2);
  const std::vector<std::int64_t> times = {3, 3, 1, 0};
  EXPECT_EQ(RepeatedWorkMicros(graph, cluster, MeasuredCosts(graph, cluster), times), 7 * 5 / 2.0);
}

TEST(BoundsTest, IndependentWorkIsSharedAmongTheDevices) {
  GraphBuilder builder("independent");
  for (const char* const name : {"a", "b", "c", "d", "e"}) builder.Add(MakeOp(name, 3));
  const Graph graph = builder.Build();
  const Cluster cluster = MakeCluster(2);
  // Five ops of 3 us on two devices: 15 / 2, more than the 3 us of any path.
  EXPECT_EQ(ComputeBounds(graph, cluster, MeasuredCosts(graph, cluster)).lower_bound_micros, 7.5);
}

TEST(BoundsTest, EveryOpCountsWithItsFastestDevice) {
  GraphBuilder builder("mixed");
  OpSpec first = MakeOp("a", 0);
  first.time_micros.reset();
  first.kind_times = {{"test-cpu", 2}, {"test-gpu", 8}};
  OpSpec second = MakeOp("b", 0, {"a"});
  second.time_micros.reset();
  second.kind_times = {{"test-gpu", 4}};  // has no time on the CPU
  builder.Add(first);
  builder.Add(second);
  const Graph graph = builder.Build();
  const Cluster cluster = MakeMixedCluster(1);
  EXPECT_EQ(ComputeBounds(graph, cluster, MeasuredCosts(graph, cluster)).critical_path_micros, 6);  // 2 + 4
}

TEST(BoundsTest, TimesAreRoundedToNanosecondsOneByOne) {
  // 0.0004 us is 0.4 ns, which rounds to 0; 0.0006 us is 0.6 ns, which rounds to 1 ns.
  const Cluster cluster = MakeCluster(1);
  const Graph rounded_down = MakeChain(10, 0.0004, 0);
  const Graph rounded_up = MakeChain(10, 0.0006, 0);
  EXPECT_EQ(ComputeBounds(rounded_down, cluster, MeasuredCosts(rounded_down, cluster)).critical_path_micros, 0);
  EXPECT_EQ(ComputeBounds(rounded_up, cluster, MeasuredCosts(rounded_up, cluster)).critical_path_micros, 0.01);
}

TEST(BoundsTest, PersistentBytesAreSummedOverAllOps) {
  GraphBuilder builder("weights");
  OpSpec a = MakeOp("a", 1);
  a.persistent = Bytes{300};
  OpSpec b = MakeOp("b", 1);
  b.persistent = Bytes{45};
  builder.Add(a);
  builder.Add(b);
  const Graph graph = builder.Build();
  const Cluster cluster = MakeCluster(2);
  EXPECT_EQ(ComputeBounds(graph, cluster, MeasuredCosts(graph, cluster)).persistent, Bytes{345});
}

TEST(BoundsTest, AnEmptyGraphHasBoundsOfZero) {
  const Cluster cluster = MakeCluster(2);
  const Bounds bounds = ComputeBounds(Graph(), cluster, MeasuredCosts(Graph(), cluster));
  EXPECT_EQ(bounds.lower_bound_micros, 0);
  EXPECT_EQ(bounds.work_micros, 0);
}

TEST(LoadsTest, ATensorCountsOncePerDestinationDevice) {
  // a (gpu:0) writes 100 bytes, which b and c read on gpu:1, d on gpu:2 and e on gpu:0: two copies leave gpu:0. b
  // writes 7 bytes that d reads: one copy from gpu:1 to gpu:2.
  GraphBuilder builder("fan");
  builder.Add(MakeOp("a", 2, {}, {100}));
  builder.Add(MakeOp("b", 3, {"a"}, {7}));
  builder.Add(MakeOp("c", 4, {"a"}));
  builder.Add(MakeOp("d", 5, {"a", "b"}));
  builder.Add(MakeOp("e", 6, {"a"}));
  const Graph graph = builder.Build();
  const Cluster cluster = MakeCluster(3);
  Placement placement(graph.num_ops());
  for (const char* const name : {"b", "c"}) placement[*graph.FindOp(name)] = MakeId<DeviceId>(1);
  placement[*graph.FindOp("d")] = MakeId<DeviceId>(2);
  const std::vector<DeviceLoad> loads = ComputeLoads(graph, cluster, MeasuredCosts(graph, cluster), placement);
  ASSERT_EQ(loads.size(), 3U);
  EXPECT_EQ(loads[0].ops, 2U);
  EXPECT_EQ(loads[0].busy_micros, 8);  // a 2, e 6
  EXPECT_EQ(loads[0].tensors_sent, 2U);
  EXPECT_EQ(loads[0].sent, Bytes{200});
  EXPECT_EQ(loads[1].ops, 2U);
  EXPECT_EQ(loads[1].busy_micros, 7);  // b 3, c 4
  EXPECT_EQ(loads[1].tensors_sent, 1U);
  EXPECT_EQ(loads[1].sent, Bytes{7});
  EXPECT_EQ(loads[2].ops, 1U);
  EXPECT_EQ(loads[2].tensors_sent, 0U);
}

TEST(LoadsTest, ControlEdgesSendNothing) {
  GraphBuilder builder("control");
  builder.Add(MakeOp("a", 1, {}, {100}));
  OpSpec b = MakeOp("b", 1);
  b.control_inputs = {"a"};
  builder.Add(b);
  const Graph graph = builder.Build();
  const Cluster cluster = MakeCluster(2);
  Placement placement(2);
  placement[*graph.FindOp("b")] = MakeId<DeviceId>(1);
  const std::vector<DeviceLoad> loads = ComputeLoads(graph, cluster, MeasuredCosts(graph, cluster), placement);
  EXPECT_EQ(loads[0].tensors_sent, 0U);
  EXPECT_EQ(loads[0].sent, Bytes{0});
}

}  // namespace
}  // namespace emplace
