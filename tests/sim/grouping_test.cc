#include "sim/grouping.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/testing/graphs.h"

namespace emplace {
namespace {

using ::emplace::testing::MakeCluster;
using ::emplace::testing::MakeDiamond;
using ::emplace::testing::MakeOp;
using ::emplace::testing::MeasuredCosts;
using ::testing::ElementsAre;

OpId OpAt(std::size_t i) { return MakeId<OpId>(i); }

TEST(GroupingTest, GroupsAreNumberedByTheirSmallestOp) {
  // a, b, c, d with labels 9, 4, 9, 4: {a, c} is group 0, {b, d} group 1.
  const Grouping grouping(MakeDiamond(1, 4), std::vector<std::size_t>{9, 4, 9, 4});
  EXPECT_EQ(grouping.num_groups(), 2U);
  EXPECT_THAT(grouping.members(0), ElementsAre(OpAt(0), OpAt(2)));
  EXPECT_THAT(grouping.members(1), ElementsAre(OpAt(1), OpAt(3)));
  EXPECT_EQ(grouping.group_of(OpAt(3)), 1U);
}

TEST(GroupingTest, AColocationClassIsNeverSplit) {
  GraphBuilder builder("g");
  builder.Add(MakeOp("a", 1));
  OpSpec b = MakeOp("b", 1);
  b.colocate_with = "a";
  builder.Add(b);
  builder.Add(MakeOp("c", 1));
  const Grouping grouping(builder.Build(), std::vector<std::size_t>{0, 1, 1});
  EXPECT_EQ(grouping.num_groups(), 1U);  // b is colocated with a and has c's label
}

TEST(GroupingTest, ACoarseOpIsTheSumOfItsMembers) {
  GraphBuilder builder("g");
  const auto op = [](const char* name, double micros, std::vector<std::string> inputs, std::int64_t bytes) {
    OpSpec spec = MakeOp(name, micros, std::move(inputs), {bytes});
    spec.temp = Bytes{bytes};
    spec.persistent = Bytes{10};
    spec.flop = 3;
    return spec;
  };
  builder.Add(op("a", 1, {}, 100));
  builder.Add(op("b", 2, {"a"}, 200));
  builder.Add(op("c", 4, {"a", "b"}, 300));
  const Graph graph = builder.Build();
  const Cluster cluster = MakeCluster(1);
  const Grouping grouping(graph, std::vector<std::size_t>{0, 0, 1});
  std::size_t dropped = 99;
  const Graph coarse = grouping.Coarsen(graph, cluster, MeasuredCosts(graph, cluster), &dropped);
  ASSERT_EQ(coarse.num_ops(), 2U);
  EXPECT_EQ(coarse.MeasuredMicros(OpAt(0), "test-gpu"), 3);
  EXPECT_EQ(coarse.op(OpAt(0)).persistent, Bytes{20});
  EXPECT_EQ(coarse.op(OpAt(0)).temp, Bytes{200});
  EXPECT_EQ(coarse.op(OpAt(0)).flop, 6);
  // Both tensors leave the group; internal tensors are omitted.
  ASSERT_EQ(coarse.num_outputs(OpAt(0)), 2U);
  EXPECT_EQ(coarse.inputs(OpAt(1)).size(), 2U);
  EXPECT_EQ(coarse.num_outputs(OpAt(1)), 0U);
  EXPECT_EQ(dropped, 0U);
}

TEST(GroupingTest, EdgesAgainstTheOrderOfGroupsAreLeftOutAndCounted) {
  // a -> b -> c with a and c in one group: {a, c} -> {b} stays, {b} -> {a, c} would form a cycle.
  const Graph graph = testing::MakeChain(3, 1, 4);
  const Cluster cluster = MakeCluster(1);
  std::size_t dropped = 0;
  const Graph coarse = Grouping(graph, std::vector<std::size_t>{0, 1, 0})
                           .Coarsen(graph, cluster, MeasuredCosts(graph, cluster), &dropped);
  EXPECT_EQ(coarse.num_ops(), 2U);
  EXPECT_EQ(dropped, 1U);
  EXPECT_TRUE(coarse.inputs(OpAt(0)).empty());
  EXPECT_EQ(coarse.inputs(OpAt(1)).size(), 1U);
}

TEST(GroupingTest, OpIOfTheCoarseGraphIsGroupI) {
  Rng rng(61);
  for (int i = 0; i < 50; ++i) {
    const Graph graph = testing::RandomDag(rng, {.num_ops = 120});
    const Cluster cluster = MakeCluster(2);
    std::vector<std::size_t> labels(graph.num_ops());
    for (std::size_t& label : labels) label = rng.Below(40);
    const Grouping grouping(graph, labels);
    const CostTable costs = MeasuredCosts(graph, cluster);
    const Graph coarse = grouping.Coarsen(graph, cluster, costs);
    ASSERT_EQ(coarse.num_ops(), grouping.num_groups());
    for (std::size_t group = 0; group < grouping.num_groups(); ++group) {
      double micros = 0;
      for (const OpId op : grouping.members(group)) micros += costs.Micros(op, MakeId<DeviceId>(0));
      ASSERT_EQ(coarse.MeasuredMicros(OpAt(group), "test-gpu"), micros);
    }
  }
}

TEST(GroupingTest, AGroupHasATimeOnlyWhereAllItsOpsHaveOne) {
  GraphBuilder builder("g");
  OpSpec both = MakeOp("a", 0);
  both.time_micros = std::nullopt;
  both.kind_times = {{"test-cpu", 1}, {"test-gpu", 2}};
  OpSpec cpu = both;
  cpu.name = "b";
  cpu.kind_times = {{"test-cpu", 5}};
  builder.Add(both);
  builder.Add(cpu);
  const Graph graph = builder.Build();
  const Cluster cluster = testing::MakeMixedCluster(1);
  const Graph coarse =
      Grouping(graph, std::vector<std::size_t>{0, 0}).Coarsen(graph, cluster, MeasuredCosts(graph, cluster));
  EXPECT_EQ(coarse.MeasuredMicros(OpAt(0), "test-cpu"), 6);
  EXPECT_EQ(coarse.MeasuredMicros(OpAt(0), "test-gpu"), std::nullopt);
}

TEST(GroupingTest, ExpandPutsEachOpOnItsGroupsDevice) {
  const Grouping grouping(MakeDiamond(1, 4), std::vector<std::size_t>{0, 1, 0, 1});
  Placement groups(2);
  groups[OpAt(1)] = MakeId<DeviceId>(7);
  const Placement ops = grouping.Expand(groups);
  EXPECT_EQ(Index(ops[OpAt(0)]), 0U);
  EXPECT_EQ(Index(ops[OpAt(1)]), 7U);
  EXPECT_EQ(Index(ops[OpAt(3)]), 7U);
}

}  // namespace
}  // namespace emplace
