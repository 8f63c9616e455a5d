#include "sim/graph_algorithms.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/graphs.h"

namespace emplace {
namespace {

using ::emplace::testing::MakeChain;
using ::emplace::testing::MakeDiamond;
using ::testing::ElementsAre;

TEST(GraphAlgorithmsTest, TopologicalOrderHasProducersBeforeConsumers) {
  Rng rng(11);
  for (int i = 0; i < 50; ++i) {
    const Graph graph = testing::RandomDag(rng, {.num_ops = 60});
    const std::vector<OpId> order = TopologicalOrder(graph);
    ASSERT_EQ(order.size(), graph.num_ops());
    std::vector<std::size_t> position(order.size());
    for (std::size_t k = 0; k < order.size(); ++k) position[Index(order[k])] = k;
    for (std::size_t op = 0; op < order.size(); ++op) {
      for (const TensorId input : graph.inputs(MakeId<OpId>(op))) {
        ASSERT_LT(position[Index(graph.tensor(input).producer)], position[op]);
      }
    }
  }
}

TEST(GraphAlgorithmsTest, DepthIsTheNumberOfEdgesOnTheLongestPath) {
  EXPECT_THAT(Depths(MakeDiamond(1, 4)), ElementsAre(0, 1, 1, 2));  // a, b, c, d
  EXPECT_EQ(Depths(MakeChain(5, 1, 4)).back(), 4U);
  EXPECT_TRUE(Depths(Graph()).empty());
}

TEST(GraphAlgorithmsTest, CriticalPathIsTheHeaviestChain) {
  // Diamond a, b, c, d with 1, 10, 3, 5: a, b, d = 16.
  EXPECT_EQ(CriticalPath(MakeDiamond(1, 4), std::vector<std::int64_t>{1, 10, 3, 5}), 16);
  EXPECT_EQ(CriticalPath(Graph(), {}), 0);
}

TEST(GraphAlgorithmsTest, ReachabilityIsTheClosureOfTheEdges) {
  Rng rng(12);
  const Graph graph = testing::RandomDag(rng, {.num_ops = 150});  // more than two words per row
  const Reachability reach(graph);
  // Warshall's closure, as a slow reference.
  const std::size_t n = graph.num_ops();
  std::vector<std::vector<bool>> closure(n, std::vector<bool>(n, false));
  for (std::size_t op = 0; op < n; ++op) {
    for (const TensorId input : graph.inputs(MakeId<OpId>(op))) closure[Index(graph.tensor(input).producer)][op] = true;
    for (const OpId producer : graph.control_inputs(MakeId<OpId>(op))) closure[Index(producer)][op] = true;
  }
  for (std::size_t k = 0; k < n; ++k) {
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < n; ++j) closure[i][j] = closure[i][j] || (closure[i][k] && closure[k][j]);
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      ASSERT_EQ(reach.Reaches(MakeId<OpId>(i), MakeId<OpId>(j)), closure[i][j]) << i << " to " << j;
    }
  }
}

}  // namespace
}  // namespace emplace
