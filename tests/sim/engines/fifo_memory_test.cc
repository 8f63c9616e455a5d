#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "sim/simulator.h"
#include "tests/testing/graphs.h"

namespace emplace {
namespace {

using ::testing::ElementsAre;
using ::testing::FieldsAre;

TEST(FifoMemoryTest, SamplesTellWhenMemoryIsTakenAndFreed) {
  // a (0-2) on gpu:0 sends its 3000 bytes to b on gpu:1: transfer 2-5, b 5-6.
  // gpu:0 holds them from 0 until they have arrived at 5; gpu:1 holds them from 2 until b ends at 6.
  GraphBuilder builder("g");
  builder.Add(testing::MakeOp("a", 2, {}, {3000}));
  builder.Add(testing::MakeOp("b", 1, {"a"}, {}));
  const Graph graph = builder.Build();
  const Cluster cluster = testing::TwoDevices();
  Placement placement(2);
  placement[MakeId<OpId>(1)] = MakeId<DeviceId>(1);
  const Simulator simulator(graph, cluster, testing::MeasuredCosts(graph, cluster));
  const DeviceId first = MakeId<DeviceId>(0);
  const DeviceId second = MakeId<DeviceId>(1);
  EXPECT_THAT(
      simulator.Record(placement).memory,
      ElementsAre(FieldsAre(first, 0, Bytes{3000}), FieldsAre(first, 2, Bytes{3000}), FieldsAre(first, 5, Bytes{0}),
                  FieldsAre(second, 0, Bytes{0}), FieldsAre(second, 2, Bytes{3000}), FieldsAre(second, 5, Bytes{3000}),
                  FieldsAre(second, 6, Bytes{0})));
}

TEST(FifoMemoryTest, NothingIsLeftBehindAStepButPersistentBytes) {
  Rng rng(41);
  for (int i = 0; i < 100; ++i) {
    const Graph graph = testing::RandomDag(rng, {.num_ops = 50, .memory = true});
    const Cluster cluster = testing::MakeCluster(3);
    const CostTable costs = testing::MeasuredCosts(graph, cluster);
    const Placement placement = testing::RandomPlacement(rng, graph, cluster, costs);
    std::vector<std::int64_t> persistent(3);
    for (std::size_t op = 0; op < graph.num_ops(); ++op) {
      persistent[Index(placement[MakeId<OpId>(op)])] += graph.op(MakeId<OpId>(op)).persistent.count;
    }
    std::vector<std::int64_t> last(3);
    for (const auto& sample : Simulator(graph, cluster, costs).Record(placement).memory) {
      ASSERT_GE(sample.in_use.count, persistent[Index(sample.device)]);
      last[Index(sample.device)] = sample.in_use.count;
    }
    ASSERT_EQ(last, persistent);
  }
}

}  // namespace
}  // namespace emplace
