#include "sim/groupers/group_graph.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/graphs.h"

namespace emplace {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(GroupGraphTest, MergingMovesEdgesAndBytes) {
  // Diamond a, b, c, d with tensors of 10 bytes: a sends 10 to b and to c.
  GroupGraph groups(testing::MakeDiamond(1, 10));
  EXPECT_EQ(groups.output_bytes(0), 20);
  EXPECT_EQ(groups.Merge(1, 2), 1U);  // b and c: the smaller id is the merged group's
  EXPECT_EQ(groups.num_groups(), 3U);
  EXPECT_THAT(groups.successors(0), ElementsAre(Pair(1, 20)));
  EXPECT_THAT(groups.predecessors(3), ElementsAre(Pair(1, 20)));
  EXPECT_EQ(groups.output_bytes(1), 20);
  EXPECT_EQ(groups.Merge(1, 0), 0U);
  EXPECT_EQ(groups.output_bytes(0), 20);  // the tensors from a to b and c stay inside
  EXPECT_THAT(groups.Labels(), ElementsAre(0, 0, 0, 3));
  EXPECT_EQ(groups.Merge(0, 3), 0U);
  EXPECT_TRUE(groups.successors(0).empty());
  EXPECT_EQ(groups.output_bytes(0), 0);
}

TEST(GroupGraphTest, TheHeaviestNeighbourComesFirstAndOfEqualOnesTheSmallest) {
  // More neighbours than are sorted again each time: 100 producers of 1, 2, ... 10 bytes, ten of each, and their
  // reader.
  std::vector<OpSpec> ops;
  std::vector<std::string> inputs;
  for (std::size_t i = 0; i < 100; ++i) {
    inputs.push_back("p" + std::to_string(100 + i));
    ops.push_back(testing::MakeOp(inputs.back(), 1, {}, {static_cast<std::int64_t>(1 + i % 10)}));
  }
  ops.push_back(testing::MakeOp("sink", 1, inputs));
  GroupGraph groups(testing::Build(ops));
  const auto heaviest = [&groups](std::size_t group, std::size_t refused) {
    return groups.FindHeaviest(group, GroupGraph::Direction::kPredecessors,
                               [refused](std::size_t name) { return name != refused; });
  };
  EXPECT_EQ(heaviest(100, 1000), 9U);
  EXPECT_EQ(heaviest(100, 9), 19U);
  // The reader has another id now, and its neighbours stay sorted: 20 bytes from {19, 29}, then 10 from 39.
  EXPECT_EQ(groups.Merge(100, 9), 9U);
  EXPECT_EQ(groups.Merge(29, 19), 19U);
  EXPECT_EQ(heaviest(9, 1000), 19U);
  EXPECT_EQ(heaviest(9, 19), 39U);
  EXPECT_EQ(groups.FindHeaviest(19, GroupGraph::Direction::kSuccessors, [](std::size_t) { return true; }), 9U);
  EXPECT_EQ(groups.FindHeaviest(19, GroupGraph::Direction::kSuccessors, [](std::size_t) { return false; }),
            std::nullopt);
}

TEST(GroupGraphTest, AMergeTellsWhoFedBoth) {
  // Diamond: a feeds b and c.
  GroupGraph groups(testing::MakeDiamond(1, 10));
  groups.Merge(1, 2);
  EXPECT_THAT(groups.shared_predecessors(), ElementsAre(0));
  groups.Merge(1, 3);
  EXPECT_TRUE(groups.shared_predecessors().empty());
}

TEST(GroupGraphTest, StartsWithTheColocationClasses) {
  GraphBuilder builder("g");
  builder.Add(testing::MakeOp("a", 1, {}, {4}));
  OpSpec c = testing::MakeOp("c", 1, {"b"});
  c.colocate_with = "a";
  builder.Add(testing::MakeOp("b", 1, {"a"}, {8}));
  builder.Add(c);
  const GroupGraph groups(builder.Build());
  EXPECT_EQ(groups.num_groups(), 2U);
  // {a, c} and {b} feed each other.
  EXPECT_THAT(groups.successors(0), ElementsAre(Pair(1, 4)));
  EXPECT_THAT(groups.successors(1), ElementsAre(Pair(0, 8)));
}

TEST(GroupGraphTest, GroupsThatNoKindOfDeviceCouldHoldAreNotCompatible) {
  GraphBuilder builder("g");
  const auto add = [&builder](const char* name, const char* kind) {
    OpSpec spec = testing::MakeOp(name, 0);
    spec.time_micros = std::nullopt;
    spec.kind_times = {{kind, 1}};
    builder.Add(spec);
  };
  add("a", "cpu");
  add("b", "gpu");
  add("c", "gpu");
  builder.Add(testing::MakeOp("d", 1));  // independent
  const GroupGraph groups(builder.Build());
  EXPECT_FALSE(groups.Compatible(0, 1));
  EXPECT_TRUE(groups.Compatible(1, 2));
  EXPECT_TRUE(groups.Compatible(0, 3));
}

}  // namespace
}  // namespace emplace
