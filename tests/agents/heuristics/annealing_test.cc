#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/check.h"
#include "tests/testing/graphs.h"
#include "tests/testing/searches.h"

namespace emplace {
namespace {

using ::emplace::testing::Build;
using ::emplace::testing::MakeChain;
using ::emplace::testing::MakeCluster;
using ::emplace::testing::MakeOp;
using ::emplace::testing::PlacedBy;

TEST(AnnealingTest, FindsTheOptimumOfTinyGraphs) {
  Rng rng(10);
  for (int i = 0; i < 10; ++i) {
    const Graph graph = testing::RandomDag(rng, {.num_ops = 6});
    TrialSpec spec = testing::MakeTrial(graph, MakeCluster(3), "annealing");
    spec.evaluations = 3000;
    EXPECT_EQ(RunTrial(spec).best_result.step_time_micros, testing::FastestOfAll(graph, MakeCluster(3))) << i;
  }
}

TEST(AnnealingTest, FindsAPlacementThatFitsWhereTheStartDoesNot) {
  OpSpec a = MakeOp("a", 1);
  a.persistent = Bytes{80};
  OpSpec b = a;
  b.name = "b";
  const Cluster cluster =
      MakeCluster(2, {.bandwidth_gb_per_s = 1, .latency_micros = 0, .gap_micros = 0}, 0, Bytes{100});
  EXPECT_EQ(PlacedBy("annealing", Build({a, b}), cluster).size(), 2U);
}

TEST(AnnealingTest, UsesItsWholeBudget) {
  TrialSpec spec = testing::MakeTrial(MakeChain(10, 1, 4), MakeCluster(2), "annealing");
  spec.evaluations = 333;
  EXPECT_EQ(RunTrial(spec).evaluations, 333U);
}

}  // namespace
}  // namespace emplace
