#include "agents/heuristics/solver_input.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "agents/candidates.h"
#include "tests/testing/graphs.h"
#include "tests/testing/observations.h"

namespace emplace {
namespace {

using testing::Devices;
using testing::MakeObservation;
using testing::MakeOp;

// a writes 10 and 20 bytes; b reads both (the first twice), c reads the second; d depends on a by a control edge.
Graph Joined() {
  GraphBuilder builder("joined");
  builder.Add(MakeOp("a", 1, {}, {10, 20}));
  builder.Add(MakeOp("b", 1, {"a:0", "a:1", "a:0"}));
  builder.Add(MakeOp("c", 1, {"a:1"}));
  OpSpec d = MakeOp("d", 1);
  d.control_inputs = {"a"};
  builder.Add(d);
  return builder.Build();
}

TEST(GroupEdgesTest, AddUpDistinctTensorsBetweenTwoGroups) {
  // a-b: 10 + 20, a-c: 20, a-d: only an order.
  EXPECT_EQ(agents::GroupEdges(Joined()), (std::vector<agents::GroupEdge>{{0, 1, 30}, {0, 2, 20}, {0, 3, 0}}));
  EXPECT_TRUE(agents::GroupEdges(Graph()).empty());
}

TEST(ByteGraphTest, HoldsEveryEdgeTwiceAndNoneWithoutBytes) {
  const agents::ByteGraph graph = agents::MakeByteGraph(4, agents::GroupEdges(Joined()));
  EXPECT_EQ(graph.first, (std::vector<std::size_t>{0, 2, 3, 4, 4}));
  EXPECT_EQ(graph.neighbours, (std::vector<std::size_t>{1, 2, 0, 0}));
  EXPECT_EQ(graph.bytes, (std::vector<std::int64_t>{30, 20, 30, 20}));
}

TEST(ByteGraphTest, AGroupWithTooManyNeighboursKeepsNone) {
  // 0 sends bytes to three neighbours: 1, 2 and 4. The others have at most two.
  const std::vector<agents::GroupEdge> edges = {{0, 1, 10}, {0, 2, 10}, {0, 3, 0}, {0, 4, 10}, {1, 5, 20}, {2, 3, 30}};
  EXPECT_EQ(agents::MakeByteGraph(6, edges, 3).neighbours, agents::MakeByteGraph(6, edges).neighbours);
  const agents::ByteGraph graph = agents::MakeByteGraph(6, edges, 2);
  EXPECT_EQ(graph.first, (std::vector<std::size_t>{0, 0, 1, 2, 3, 3, 4}));
  EXPECT_EQ(graph.neighbours, (std::vector<std::size_t>{5, 3, 2, 1}));
  EXPECT_EQ(graph.bytes, (std::vector<std::int64_t>{20, 30, 30, 20}));
}

TEST(LinkTimeTest, IsLatencyAndBytesOverBandwidth) {
  const Cluster cluster = testing::MakeCluster(2, {.bandwidth_gb_per_s = 2, .latency_micros = 3, .gap_micros = 100});
  // 2 GB/s is 2000 bytes per µs: 3 + 10000 / 2000 = 8 µs; the gap follows the arrival.
  EXPECT_EQ(agents::LinkTime(cluster, DeviceId{0}, DeviceId{1}, Bytes{10000}), Duration(8000));
  EXPECT_EQ(agents::LinkTime(cluster, DeviceId{1}, DeviceId{1}, Bytes{10000}), Duration(0));
}

TEST(MeanLinkTest, AveragesOverOrderedPairsOfDistinctDevices) {
  std::vector<Device> devices = testing::MakeCluster(2).devices();
  const Link fast = {.bandwidth_gb_per_s = 4, .latency_micros = 1, .gap_micros = 0};
  const Link slow = {.bandwidth_gb_per_s = 1, .latency_micros = 5, .gap_micros = 0};
  const Cluster cluster("two ways", "", devices, {Link{}, fast, slow, Link{}}, Channels::kPerDevice);
  const std::vector<DeviceId> both = agents::AllDevices(cluster);
  // 4000 bytes: 1 + 1 one way, 5 + 4 the other; mean 5.5 µs.
  EXPECT_DOUBLE_EQ(agents::MeanLink(cluster, both).Micros(4000), 5.5);
  EXPECT_EQ(agents::MeanLink(cluster, std::vector{DeviceId{0}}).Micros(4000), 0);
}

// "free" runs anywhere, "cpu" only on CPUs. Devices: cpu:0, gpu:0, gpu:1.
agents::Observation SomeOnCpu() {
  GraphBuilder builder("kinds");
  OpSpec anywhere = MakeOp("free", 0);
  anywhere.time_micros.reset();
  anywhere.kind_times = {{"test-cpu", 9}, {"test-gpu", 2}};
  OpSpec cpu = MakeOp("later", 0);
  cpu.time_micros.reset();
  cpu.kind_times = {{"test-cpu", 7}};
  builder.Add(anywhere);
  builder.Add(cpu);
  return MakeObservation(builder.Build(), testing::MakeMixedCluster(2));
}

TEST(CandidatesTest, FallBackToWhereAGroupIsAllowed) {
  const agents::Observation observation = SomeOnCpu();
  const std::vector<DeviceId> gpus = {DeviceId{1}, DeviceId{2}};
  EXPECT_EQ(agents::Candidates(observation, 0, gpus), gpus);
  EXPECT_EQ(agents::Candidates(observation, 1, gpus), std::vector{DeviceId{0}});
  // (9 + 2 + 2) / 3 and 2.
  EXPECT_DOUBLE_EQ(agents::MeanMicros(observation, 0, agents::AllDevices(observation.cluster)), 13.0 / 3);
  EXPECT_EQ(agents::MeanMicros(observation, 0, gpus), 2);
  EXPECT_EQ(agents::MeanMicros(observation, 0, {}), 0);
}

TEST(PlacePartsTest, MovesGroupsToWhereTheyAreAllowed) {
  const agents::Observation observation = SomeOnCpu();
  const std::vector<DeviceId> gpus = {DeviceId{1}, DeviceId{2}};
  EXPECT_EQ(Devices(agents::PlaceParts(observation, gpus, std::vector<std::int32_t>{1, 1})), (std::vector<int>{2, 0}));
}

TEST(GroupBytesTest, AddsPersistentTemporaryAndOutputBytes) {
  GraphBuilder builder("bytes");
  OpSpec op = MakeOp("op", 1, {}, {10, 20});
  op.temp = Bytes{100};
  op.persistent = Bytes{1000};
  builder.Add(op);
  EXPECT_EQ(agents::GroupBytes(MakeObservation(builder.Build(), testing::TwoDevices()), 0), 1130);
}

TEST(CapacityTest, IsUnlimitedWithoutAMemorySize) {
  EXPECT_EQ(agents::Capacity(testing::MakeCluster(1, {}, 0, Bytes{77}).devices()[0]), 77);
  EXPECT_EQ(agents::Capacity(testing::MakeCluster(1).devices()[0]), std::numeric_limits<std::int64_t>::max());
}

TEST(ScaledWeightsTest, KeepsWhatFits) {
  EXPECT_EQ(agents::ScaledWeights(std::vector<std::int64_t>{3, 0, 7}, 10), (std::vector<std::int32_t>{3, 0, 7}));
}

TEST(ScaledWeightsTest, ShrinksByACommonFactorAndKeepsPositiveOnesPositive) {
  // Sum 1001, to be 100: 900 -> 89.9, 100 -> 9.99, 1 -> 0.0999, kept at 1.
  EXPECT_EQ(agents::ScaledWeights(std::vector<std::int64_t>{900, 100, 1, 0}, 100),
            (std::vector<std::int32_t>{90, 10, 1, 0}));
}

TEST(ScaledWeightsTest, SurvivesSumsBeyond64Bits) {
  const std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(agents::ScaledWeights(std::vector<std::int64_t>{huge, huge, huge, huge}, 1 << 20),
            std::vector<std::int32_t>(4, 1 << 18));
}

}  // namespace
}  // namespace emplace
