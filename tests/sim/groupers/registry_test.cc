#include <gtest/gtest.h>

#include <string>

#include "sim/base/check.h"
#include "sim/grouping.h"
#include "tests/testing/graphs.h"

namespace emplace {
namespace {

class GrouperContractTest : public ::testing::TestWithParam<GrouperEntry> {};

TEST_P(GrouperContractTest, EveryOpIsInOneGroupAndColocatedOpsAreTogether) {
  Rng rng(81);
  for (int i = 0; i < 30; ++i) {
    const Graph graph = testing::RandomDag(rng, {.num_ops = 80, .layers = true});
    const Grouping grouping = GetParam().make(graph, {.max_groups = 10});
    std::size_t members = 0;
    for (std::size_t group = 0; group < grouping.num_groups(); ++group) members += grouping.members(group).size();
    ASSERT_EQ(members, graph.num_ops());
    for (std::size_t op = 0; op < graph.num_ops(); ++op) {
      const OpId id = MakeId<OpId>(op);
      ASSERT_EQ(grouping.group_of(id), grouping.group_of(graph.colocation_class(id)));
    }
  }
}

TEST_P(GrouperContractTest, TheSameGraphGivesTheSameGroups) {
  Rng rng(82);
  const Graph graph = testing::RandomDag(rng, {.num_ops = 100, .layers = true});
  const Grouping first = GetParam().make(graph, {.max_groups = 12});
  const Grouping second = GetParam().make(graph, {.max_groups = 12});
  ASSERT_EQ(first.num_groups(), second.num_groups());
  for (std::size_t op = 0; op < graph.num_ops(); ++op) {
    ASSERT_EQ(first.group_of(MakeId<OpId>(op)), second.group_of(MakeId<OpId>(op)));
  }
}

TEST_P(GrouperContractTest, AnEmptyGraphHasNoGroups) { EXPECT_EQ(GetParam().make(Graph(), {}).num_groups(), 0U); }

TEST_P(GrouperContractTest, StatesWhatItIs) {
  EXPECT_FALSE(GetParam().summary.empty());
  EXPECT_FALSE(GetParam().source.empty());
}

INSTANTIATE_TEST_SUITE_P(All, GrouperContractTest, ::testing::ValuesIn(AllGroupers()),
                         [](const auto& row) { return std::string(row.param.name); });

TEST(GrouperRegistryTest, AnUnknownNameIsRefusedWithTheKnownOnes) {
  try {
    FindGrouper("kmeans");
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "unknown grouping \"kmeans\" (identity, merge_and_colocate, colocation, modules, layers, ops)");
  }
}

}  // namespace
}  // namespace emplace
