#include "agents/heuristics/search_levels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <vector>

#include "sim/simulator.h"
#include "tests/testing/graphs.h"

namespace emplace::testing {
namespace {

// An environment with what it refers to.
struct LevelsWorld {
  LevelsWorld(Graph g, const char* grouper, std::size_t groups)
      : graph(std::move(g)),
        cluster(MakeCluster(2)),
        costs(MeasuredCosts(graph, cluster)),
        simulator(graph, cluster, costs),
        env(graph, cluster, costs, FindGrouper(grouper).make(graph, {.max_groups = groups}), simulator) {}
  Graph graph;
  Cluster cluster;
  CostTable costs;
  Simulator simulator;
  agents::Environment env;
};

Graph DagOf(std::size_t num_ops) {
  Rng rng(17);
  return RandomDag(rng, {.num_ops = num_ops, .colocated = true});
}

TEST(SearchLevelsTest, GoFromGroupsToFewUnits) {
  const LevelsWorld world(DagOf(700), "identity", 0);
  const std::vector<agents::SearchLevel> levels = agents::MakeSearchLevels(world.env);
  ASSERT_EQ(levels.size(), 3U) << "groups, 256 and 64 units: 1,024 are more than half of the groups";
  EXPECT_EQ(levels[0].members.size(), world.env.observation().num_groups());
  EXPECT_LE(levels[1].members.size(), 256U);
  EXPECT_LE(levels[2].members.size(), 64U);
  for (const agents::SearchLevel& level : levels) {
    std::vector<std::size_t> seen(level.unit_of.size(), 0);
    for (std::size_t unit = 0; unit < level.members.size(); ++unit) {
      for (const std::uint32_t group : level.members[unit]) {
        ++seen[group];
        EXPECT_EQ(level.unit_of[group], unit);
      }
    }
    EXPECT_EQ(std::count(seen.begin(), seen.end(), 1U), static_cast<std::ptrdiff_t>(seen.size()));
    const Grouping grouping = agents::GroupingOfLevel(world.env, level);
    EXPECT_EQ(grouping.num_groups(), level.members.size());
    for (std::size_t op = 0; op < world.graph.num_ops(); ++op) {
      EXPECT_EQ(grouping.group_of(MakeId<OpId>(op)), level.unit_of[world.env.grouping().group_of(MakeId<OpId>(op))]);
    }
  }
}

TEST(SearchLevelsTest, UnitsHaveADeviceWhereAllTheirGroupsMayGo) {
  Rng rng(5);
  const Graph graph = RandomDag(rng, {.num_ops = 600, .kinds_differ = true});  // some only on the CPU, some never there
  const Cluster cluster = MakeMixedCluster(2);
  const CostTable costs = MeasuredCosts(graph, cluster);
  const Simulator simulator(graph, cluster, costs);
  const agents::Environment env(graph, cluster, costs, FindGrouper("identity").make(graph, {}), simulator);
  const std::vector<agents::SearchLevel> levels = agents::MakeSearchLevels(env);
  ASSERT_GT(levels.size(), 1U);
  for (const agents::SearchLevel& level : levels) {
    for (std::size_t unit = 0; unit < level.members.size(); ++unit) {
      std::size_t devices = 0;
      for (std::size_t d = 0; d < cluster.num_devices(); ++d) {
        const auto may = [&](std::uint32_t group) { return env.observation().Allowed(group, d); };
        if (std::all_of(level.members[unit].begin(), level.members[unit].end(), may)) ++devices;
      }
      EXPECT_GT(devices, 0U) << unit;
    }
    const Grouping grouping = agents::GroupingOfLevel(env, level);
    for (std::size_t op = 0; op < graph.num_ops(); ++op) {
      EXPECT_EQ(grouping.group_of(MakeId<OpId>(op)), level.unit_of[env.grouping().group_of(MakeId<OpId>(op))]);
    }
  }
}

TEST(SearchLevelsTest, AFewGroupsAreOneLevel) {
  const LevelsWorld world(DagOf(100), "identity", 0);
  EXPECT_EQ(agents::MakeSearchLevels(world.env).size(), 1U);
}

TEST(SearchLevelsTest, NeighboursAreThoseOfTheGroupGraph) {
  const LevelsWorld world(MakeForkJoin(3, 1, 4), "identity", 0);
  const agents::SearchLevel level = agents::MakeSearchLevels(world.env).at(0);
  const auto as_list = [](std::span<const std::uint32_t> row) {
    return std::vector<std::uint32_t>(row.begin(), row.end());
  };
  EXPECT_EQ(as_list(level.after[0]), (std::vector<std::uint32_t>{1, 2, 3}));
  EXPECT_EQ(as_list(level.before[0]), std::vector<std::uint32_t>());
  EXPECT_EQ(as_list(level.before[4]), (std::vector<std::uint32_t>{1, 2, 3}));
  EXPECT_EQ(as_list(level.after[2]), std::vector<std::uint32_t>{4});
}

TEST(SearchLevelsTest, AGroupOfTheEnvironmentIsNeverSplit) {
  // Groups that merging ops would split: every second op.
  const Graph graph = DagOf(600);
  std::vector<std::size_t> labels;
  for (std::size_t op = 0; op < graph.num_ops(); ++op) labels.push_back(op % 300);
  const Cluster cluster = MakeCluster(2);
  const CostTable costs = MeasuredCosts(graph, cluster);
  const Simulator simulator(graph, cluster, costs);
  const agents::Environment env(graph, cluster, costs, Grouping(graph, labels), simulator);
  const std::vector<agents::SearchLevel> levels = agents::MakeSearchLevels(env);
  ASSERT_EQ(levels.size(), 2U);
  EXPECT_LE(levels[1].members.size(), 64U);
  EXPECT_GT(levels[1].members.size(), 1U);
  EXPECT_EQ(levels[1].unit_of.size(), env.observation().num_groups());
}

}  // namespace
}  // namespace emplace::testing
