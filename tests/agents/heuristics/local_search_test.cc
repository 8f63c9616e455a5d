#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/base/check.h"
#include "sim/simulator.h"
#include "tests/testing/graphs.h"
#include "tests/testing/searches.h"

namespace emplace {
namespace {

using ::emplace::testing::Build;
using ::emplace::testing::MakeCluster;
using ::emplace::testing::MakeOp;
using ::emplace::testing::PlacedBy;

TEST(LocalSearchTest, EndsWhereNoMoveOfOneGroupHelps) {
  Rng rng(9);
  for (int i = 0; i < 10; ++i) {
    const Graph graph = testing::RandomDag(rng, {.num_ops = 12});
    const Cluster cluster = MakeCluster(3);
    const agents::SearchResult result = agents::RunSearch(testing::MakeSearch(graph, cluster, "local_search"));
    ASSERT_LT(result.evaluations, 5000U);  // it terminated before its budget
    const Simulator simulator(graph, cluster, testing::MeasuredCosts(graph, cluster));
    for (std::size_t op = 0; op < graph.num_ops(); ++op) {
      for (std::size_t d = 0; d < 3; ++d) {
        Placement moved = *result.best;
        moved[MakeId<OpId>(op)] = MakeId<DeviceId>(d);
        ASSERT_GE(simulator.Run(moved).step_time_micros, result.best_result.step_time_micros);
      }
    }
  }
}

TEST(LocalSearchTest, FindsTheOptimumOfIndependentOps) {
  // Four ops of 1 us on two devices: the optimum is 2 us. Single moves lead from 4 us on one device to 3, then 2.
  std::vector<OpSpec> specs;
  for (const char* const name : {"a", "b", "c", "d"}) specs.push_back(MakeOp(name, 1));
  const Graph graph = Build(specs);
  const agents::SearchResult result = agents::RunSearch(testing::MakeSearch(graph, MakeCluster(2), "local_search"));
  EXPECT_EQ(testing::FastestOfAll(graph, MakeCluster(2)), 2);
  EXPECT_EQ(result.best_result.step_time_micros, 2);
}

TEST(LocalSearchTest, FindsAPlacementThatFitsWhereTheStartDoesNot) {
  // Two ops of 80 bytes on devices of 100: the start, both on one device, exceeds the memory.
  OpSpec a = MakeOp("a", 1);
  a.persistent = Bytes{80};
  OpSpec b = a;
  b.name = "b";
  const Cluster cluster =
      MakeCluster(2, {.bandwidth_gb_per_s = 1, .latency_micros = 0, .gap_micros = 0}, 0, Bytes{100});
  EXPECT_EQ(PlacedBy("local_search", Build({a, b}), cluster).size(), 2U);
}

}  // namespace
}  // namespace emplace
