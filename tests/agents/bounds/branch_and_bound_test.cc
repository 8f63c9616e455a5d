#include "agents/bounds/branch_and_bound.h"

#include <gtest/gtest.h>

#include "agents/bounds/lower_bound.h"
#include "sim/simulator.h"
#include "tests/testing/graphs.h"

namespace emplace::testing {
namespace {

Graph Dag(std::size_t num_ops) {
  Rng rng(11);
  return RandomDag(rng, {.num_ops = num_ops, .max_micros = 40, .max_kilobytes = 40});
}

TEST(BranchAndBoundTest, ProvesTheOptimumOfARandomGraph) {
  const Graph graph = Dag(18);
  const Cluster cluster = MakeCluster(2);
  const CostTable costs = MeasuredCosts(graph, cluster);
  const agents::ExactResult result = agents::BranchAndBound(graph, cluster, costs, {});
  ASSERT_TRUE(result.is_complete);
  EXPECT_EQ(result.bound_nanos, result.best_nanos);
  EXPECT_EQ(DurationFromMicros(Simulator(graph, cluster, costs).Run(*result.best).step_time_micros).count(),
            result.best_nanos);
  // The same search, the same answer; and one that starts at the optimum has less to do.
  EXPECT_EQ(agents::BranchAndBound(graph, cluster, costs, {}).nodes, result.nodes);
  const agents::ExactResult known = agents::BranchAndBound(graph, cluster, costs, {.start = result.best});
  EXPECT_EQ(known.best_nanos, result.best_nanos);
  EXPECT_LE(known.nodes, result.nodes);
}

TEST(BranchAndBoundTest, AStoppedSearchHasAGapThatShrinks) {
  const Graph graph = Dag(60);
  const Cluster cluster = MakeCluster(3);
  const CostTable costs = MeasuredCosts(graph, cluster);
  std::vector<agents::ExactProgress> seen;
  agents::ExactOptions options;
  options.start = Placement(graph.num_ops());
  options.keep_going = [&seen](const agents::ExactProgress& now) {
    seen.push_back(now);
    return seen.size() < 20;
  };
  const agents::ExactResult result = agents::BranchAndBound(graph, cluster, costs, options);
  ASSERT_EQ(seen.size(), 20U);
  EXPECT_FALSE(result.is_complete);
  EXPECT_LT(result.bound_nanos, result.best_nanos);
  EXPECT_GE(result.bound_nanos, agents::Best(agents::QuickBounds(graph, cluster, costs)).nanos);
  for (std::size_t i = 1; i < seen.size(); ++i) {
    EXPECT_GT(seen[i].nodes, seen[i - 1].nodes);
    EXPECT_LE(*seen[i].best, *seen[i - 1].best);
    EXPECT_LE(seen[i].bound_nanos, *seen[i].best);
  }
}

TEST(BranchAndBoundTest, AnEmptyGraphTakesNoTime) {
  const Graph graph;
  const Cluster cluster = MakeCluster(2);
  const agents::ExactResult result = agents::BranchAndBound(graph, cluster, MeasuredCosts(graph, cluster), {});
  EXPECT_TRUE(result.is_complete);
  EXPECT_EQ(result.best_nanos, 0);
}

}  // namespace
}  // namespace emplace::testing
