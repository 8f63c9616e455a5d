#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "sim/groupers/groupers.h"
#include "tests/testing/graphs.h"

namespace emplace {
namespace {

using ::testing::ElementsAre;

std::vector<std::size_t> GroupsOf(const Graph& graph) {
  const Grouping grouping = GroupByColocation(graph, {});
  std::vector<std::size_t> groups;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) groups.push_back(grouping.group_of(MakeId<OpId>(i)));
  return groups;
}

TEST(ColocationGrouperTest, AChainBecomesOneGroup) {
  EXPECT_THAT(GroupsOf(testing::MakeChain(4, 1, 4)), ElementsAre(0, 0, 0, 0));
}

TEST(ColocationGrouperTest, OpsWithOneReaderJoinItAndOnceReadersAreOneSoDoesTheirProducer) {
  // a feeds b and c, and d is their only reader: b, c and d merge, and then a has one reader too.
  EXPECT_THAT(GroupsOf(testing::MakeDiamond(1, 4)), ElementsAre(0, 0, 0, 0));
}

TEST(ColocationGrouperTest, AnOpThatTwoGroupsReadStaysApart) {
  // a feeds b and c, which have no readers: three groups.
  GraphBuilder builder("g");
  builder.Add(testing::MakeOp("a", 1, {}, {4}));
  builder.Add(testing::MakeOp("b", 1, {"a"}));
  builder.Add(testing::MakeOp("c", 1, {"a"}));
  EXPECT_THAT(GroupsOf(builder.Build()), ElementsAre(0, 1, 2));
}

}  // namespace
}  // namespace emplace
