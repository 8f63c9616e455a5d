#include "agents/bounds/relaxation.h"

#include <gtest/gtest.h>

#include "tests/testing/graphs.h"

namespace emplace::testing {
namespace {

TEST(RelaxationTest, DevicesThatAreAlikeFormAType) {
  const Graph graph = MakeTwoChainsOfKinds();
  const Cluster cluster = MakeMixedCluster(3);
  const CostTable costs = MeasuredCosts(graph, cluster);
  const agents::Relaxation problem(graph, cluster, costs);
  ASSERT_EQ(problem.num_types(), 2U);
  EXPECT_EQ(problem.types()[0].devices.size() + problem.types()[1].devices.size(), cluster.num_devices());
  const agents::Relaxation each(graph, cluster, costs, agents::Relaxation::Types::kEachDevice);
  EXPECT_EQ(each.num_types(), cluster.num_devices());
  EXPECT_EQ(each.num_devices(), problem.num_devices());
}

TEST(RelaxationTest, TensorsOfOneProducerShareTheChannel) {
  const Graph graph = Build({MakeOp("a", 1, {}, {3000, 5000}), MakeOp("b", 1, {"a:0", "a:1", "a:0"})});
  const Cluster cluster = MakeCluster(2, {.bandwidth_gb_per_s = 1, .latency_micros = 2, .gap_micros = 7});
  const CostTable costs = MeasuredCosts(graph, cluster);
  const agents::Relaxation problem(graph, cluster, costs);
  ASSERT_EQ(problem.edges().size(), 1U);
  EXPECT_EQ(problem.Transfer(0, 0, 0), 2'000 + 3'000 + 7'000 + 2'000 + 5'000);
  EXPECT_EQ(problem.in(1).size(), 1U);
  EXPECT_EQ(problem.out(0).size(), 1U);
  EXPECT_TRUE(problem.in(0).empty());
}

TEST(RelaxationTest, AControlEdgeTakesTheLatencyAndAColocatedOneCannotBeSent) {
  OpSpec after = MakeOp("b", 1);
  after.control_inputs = {"a"};
  OpSpec beside = MakeOp("c", 1, {"a"});
  beside.colocate_with = "a";
  const Graph graph = Build({MakeOp("a", 1, {}, {1000}), after, beside});
  const Cluster cluster = MakeCluster(2, {.bandwidth_gb_per_s = 1, .latency_micros = 2, .gap_micros = 7});
  const CostTable costs = MeasuredCosts(graph, cluster);
  const agents::Relaxation problem(graph, cluster, costs);
  ASSERT_EQ(problem.edges().size(), 2U);
  EXPECT_EQ(problem.ShortestTransfer(0), 2'000);
  EXPECT_EQ(problem.ShortestTransfer(1), agents::kNever);
}

TEST(RelaxationTest, AForbiddenTypeHasNoTime) {
  const Graph graph = MakeChain(2, 10, 100);
  const Cluster cluster = MakeCluster(2);
  const CostTable costs = MeasuredCosts(graph, cluster);
  agents::Relaxation problem(graph, cluster, costs, agents::Relaxation::Types::kEachDevice);
  problem.SetTime(0, 1, agents::kNever);
  EXPECT_EQ(problem.Time(0, 1), agents::kNever);
  EXPECT_EQ(problem.Time(0, 0), 10'000);
  EXPECT_EQ(problem.ShortestTime(0), 10'000);
}

}  // namespace
}  // namespace emplace::testing
