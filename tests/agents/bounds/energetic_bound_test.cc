#include "agents/bounds/energetic_bound.h"

#include <gtest/gtest.h>

#include "tests/testing/graphs.h"

namespace emplace::testing {
namespace {

// One op, eight that wait for it, one that waits for these; all of 10 us, with free transfers.
Graph Fork() { return MakeForkJoin(8, 10, 0); }

TEST(EnergeticBoundTest, WorkBetweenTheFirstAndTheLastOpCountsBesideThem) {
  const Graph graph = Fork();
  const Cluster cluster = MakeCluster(4);
  const CostTable costs = MeasuredCosts(graph, cluster);
  const agents::Relaxation problem(graph, cluster, costs);
  const agents::Windows windows = agents::ComputeWindows(problem, 1);
  const agents::Prices prices = agents::FindPrices(problem);
  EXPECT_EQ(agents::PathBound(problem, windows), 30'000);
  EXPECT_EQ(agents::WorkBound(problem, prices), 25'000);                            // 100 us on 4 devices
  EXPECT_EQ(agents::EnergeticBound(problem, windows, prices, 16, 30'000), 40'000);  // 10 + 80 / 4 + 10
}

TEST(EnergeticBoundTest, TheKnownBoundIsNeverLost) {
  const Graph graph = Fork();
  const Cluster cluster = MakeCluster(4);
  const CostTable costs = MeasuredCosts(graph, cluster);
  const agents::Relaxation problem(graph, cluster, costs);
  EXPECT_EQ(agents::EnergeticBound(problem, agents::ComputeWindows(problem, 1), {1}, 16, 77'000), 77'000);
}

// Ten ops of 1 us on the accelerator and 9 us on the CPU: with x of them on the CPU, max(10 - x, 9 x) is least at x
// = 1.
TEST(EnergeticBoundTest, PricesBalanceDevicesThatDiffer) {
  std::vector<OpSpec> specs;
  for (int i = 0; i < 10; ++i) {
    OpSpec spec = MakeOp("op" + std::to_string(i), 0);
    spec.time_micros.reset();
    spec.kind_times = {{"test-cpu", 9}, {"test-gpu", 1}};
    specs.push_back(spec);
  }
  const Graph graph = Build(specs);
  const Cluster cluster = MakeMixedCluster(1);
  const CostTable costs = MeasuredCosts(graph, cluster);
  const agents::Relaxation problem(graph, cluster, costs);
  const std::int64_t bound = agents::WorkBound(problem, agents::FindPrices(problem));
  EXPECT_LE(bound, 9'000);
  EXPECT_GE(bound, 8'950);
}

}  // namespace
}  // namespace emplace::testing
