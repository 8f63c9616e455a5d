#include "agents/bounds/path_bound.h"

#include <gtest/gtest.h>

#include "tests/testing/graphs.h"

namespace emplace::testing {
namespace {

// Two producers of 10 us and 8 kB, 8 us on a link of 1 GB/s, for one reader of 1 us.
Graph TwoForOne() {
  return Build({MakeOp("a", 10, {}, {8000}), MakeOp("b", 10, {}, {8000}), MakeOp("c", 1, {"a", "b"})});
}

TEST(PathBoundTest, AJoinWaitsForATransferOrForItsOtherProducer) {
  const Graph graph = TwoForOne();
  const Cluster cluster = MakeCluster(2);
  const CostTable costs = MeasuredCosts(graph, cluster);
  const agents::Relaxation problem(graph, cluster, costs);
  // With direct producers one at a time: 10 + 1. Together: either both run beside the reader, 20, or one of them sends
  // its 8 us late, 18.
  EXPECT_EQ(agents::PathBound(problem, agents::ComputeWindows(problem, 1)), 11'000);
  const agents::Windows windows = agents::ComputeWindows(problem, 8);
  EXPECT_EQ(windows.head[2], 18'000);
  EXPECT_EQ(windows.tail[0], 1'000) << "a's end to the step's end: c may be beside a";
  EXPECT_EQ(agents::PathBound(problem, windows), 19'000);
}

TEST(PathBoundTest, OneDeviceRunsAllThatMustEndBefore) {
  const Graph graph = TwoForOne();
  const Cluster cluster = MakeCluster(1);
  const CostTable costs = MeasuredCosts(graph, cluster);
  const agents::Relaxation problem(graph, cluster, costs);
  EXPECT_EQ(agents::PathBound(problem, agents::ComputeWindows(problem, 8)), 21'000);
}

TEST(PathBoundTest, GapsCountWhereTheyAreShorterThanATransfer) {
  const Graph graph = MakeChain(3, 10, 8000);
  const Cluster cluster = MakeCluster(2, {.bandwidth_gb_per_s = 1, .latency_micros = 0, .gap_micros = 0}, 5);
  const CostTable costs = MeasuredCosts(graph, cluster);
  const agents::Relaxation problem(graph, cluster, costs);
  EXPECT_EQ(problem.Gap(0, 0), 5'000);
  EXPECT_EQ(problem.ShortestTransfer(0), 8'000);
  EXPECT_EQ(problem.ShortestStep(0), 5'000);
  EXPECT_EQ(agents::PathBound(problem, agents::ComputeWindows(problem, 1)), 40'000);
}

TEST(PathBoundTest, AnOpThatMayNotGoThereSendsItsResult) {
  const Graph graph = MakeTwoOpsForTheAccelerator();
  const Cluster cluster = MakeMixedCluster(1);
  const CostTable costs = MeasuredCosts(graph, cluster);
  const agents::Relaxation problem(graph, cluster, costs);
  ASSERT_EQ(problem.num_types(), 2U);
  const agents::Windows windows = agents::ComputeWindows(problem, 8);
  for (std::size_t op = 0; op < graph.num_ops(); ++op) {
    for (std::size_t type = 0; type < 2; ++type) {
      EXPECT_EQ(windows.head[op * 2 + type] == agents::kNever, problem.Time(op, type) == agents::kNever);
    }
  }
}

}  // namespace
}  // namespace emplace::testing
