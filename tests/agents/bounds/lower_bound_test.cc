#include "agents/bounds/lower_bound.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "sim/bounds.h"
#include "tests/testing/graphs.h"

namespace emplace::testing {
namespace {

TEST(LowerBoundTest, TheBestIsTheLargestAndOfEqualsTheFirst) {
  const std::vector<agents::Bound> bounds = {{"a", 3}, {"b", 5}, {"c", 5}};
  EXPECT_EQ(agents::Best(bounds).method, "b");
}

TEST(LowerBoundTest, QuickBoundsAreAtLeastTheSimpleOne) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Rng rng(seed);
    const Graph graph = RandomDag(rng, {.num_ops = 300, .kinds_differ = seed % 2 == 0});
    const Cluster cluster = seed % 2 == 0 ? MakeMixedCluster(3) : MakeCluster(4);
    const CostTable costs = MeasuredCosts(graph, cluster);
    EXPECT_GE(agents::Best(agents::QuickBounds(graph, cluster, costs)).nanos + 1,
              DurationFromMicros(ComputeBounds(graph, cluster, costs).critical_path_micros).count());
  }
}

TEST(LowerBoundTest, ALargeGraphIsBoundedWithoutSearch) {
  Rng rng(3);
  const Graph graph = RandomDag(rng, {.num_ops = 300, .memory = true});
  const Cluster cluster = MakeMixedCluster(2, Bytes{400'000});
  const CostTable costs = MeasuredCosts(graph, cluster);
  EXPECT_FALSE(agents::CanBeExact(graph, cluster));
  const agents::BoundReport report = agents::ProveBound(graph, cluster, costs, {.seconds = 5, .start = std::nullopt});
  EXPECT_EQ(report.nodes, 0U);
  EXPECT_FALSE(report.optimal);
  std::set<std::string> methods;
  for (const agents::Bound& bound : report.bounds) methods.insert(std::string(bound.method));
  EXPECT_TRUE(methods.contains("linear program"));
}

TEST(LowerBoundTest, APlacementAsFastAsTheBoundIsOptimalWithoutSearch) {
  const Graph graph = MakeChain(200, 10, 1000);
  const Cluster cluster = MakeCluster(2);
  const CostTable costs = MeasuredCosts(graph, cluster);
  agents::BoundOptions options;
  options.start = Placement(graph.num_ops());
  const agents::BoundReport report = agents::ProveBound(graph, cluster, costs, options);
  EXPECT_TRUE(report.optimal);
  EXPECT_EQ(report.best_nanos, 2'000'000);
}

}  // namespace
}  // namespace emplace::testing
