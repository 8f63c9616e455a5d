#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/base/check.h"
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
    agents::SearchSpec spec = testing::MakeSearch(graph, MakeCluster(3), "annealing");
    spec.evaluations = 3000;
    EXPECT_EQ(agents::RunSearch(spec).best_result.step_time_micros, testing::FastestOfAll(graph, MakeCluster(3))) << i;
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

TEST(AnnealingTest, FindsTheOptimumWhereTheStartDoesNotFit) {
  // Every op holds 40 GB, and two of the six fit on a device of 100 GB. From the start on one device the cost falls by
  // tens of seconds; among placements that fit it falls by microseconds.
  constexpr std::int64_t kGigabyte = 1'000'000'000;
  Rng rng(12);
  for (int i = 0; i < 10; ++i) {
    std::vector<OpSpec> specs;
    for (int k = 0; k < 6; ++k) {
      std::vector<std::string> inputs;
      if (k > 0) inputs.push_back("op" + std::to_string(rng.Below(static_cast<std::uint64_t>(k))));
      specs.push_back(MakeOp("op" + std::to_string(k), static_cast<double>(1 + rng.Below(20)), inputs, {2000}));
      specs.back().persistent = Bytes{40 * kGigabyte};
    }
    const Graph graph = Build(specs);
    const Cluster cluster =
        MakeCluster(4, {.bandwidth_gb_per_s = 1, .latency_micros = 1, .gap_micros = 0}, 0, Bytes{100 * kGigabyte});
    agents::SearchSpec spec = testing::MakeSearch(graph, cluster, "annealing");
    spec.evaluations = 3000;
    EXPECT_EQ(agents::RunSearch(spec).best_result.step_time_micros, testing::FastestOfAll(graph, cluster)) << i;
  }
}

TEST(AnnealingTest, UsesItsWholeBudget) {
  agents::SearchSpec spec = testing::MakeSearch(MakeChain(10, 1, 4), MakeCluster(2), "annealing");
  spec.evaluations = 333;
  EXPECT_EQ(agents::RunSearch(spec).evaluations, 333U);
}

}  // namespace
}  // namespace emplace
