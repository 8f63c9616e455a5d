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
  EXPECT_EQ(groups.Merge(1, 2), 1U);  // b and c: the smaller names it
  EXPECT_EQ(groups.num_groups(), 3U);
  EXPECT_THAT(groups.successors(0), ElementsAre(Pair(1, 20)));
  EXPECT_THAT(groups.predecessors(3), ElementsAre(Pair(1, 20)));
  EXPECT_EQ(groups.output_bytes(1), 20);
  EXPECT_EQ(groups.Merge(1, 0), 0U);
  EXPECT_EQ(groups.output_bytes(0), 20);  // what went from a to b and c stays inside
  EXPECT_THAT(groups.Labels(), ElementsAre(0, 0, 0, 3));
  EXPECT_EQ(groups.Merge(0, 3), 0U);
  EXPECT_TRUE(groups.successors(0).empty());
  EXPECT_EQ(groups.output_bytes(0), 0);
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
  builder.Add(testing::MakeOp("d", 1));  // anywhere
  const GroupGraph groups(builder.Build());
  EXPECT_FALSE(groups.Compatible(0, 1));
  EXPECT_TRUE(groups.Compatible(1, 2));
  EXPECT_TRUE(groups.Compatible(0, 3));
}

}  // namespace
}  // namespace emplace
