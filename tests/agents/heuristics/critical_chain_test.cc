#include "agents/heuristics/critical_chain.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "sim/simulator.h"
#include "tests/testing/graphs.h"

namespace emplace::testing {
namespace {

using agents::ChainLink;
using agents::Wait;
using ::testing::ElementsAre;

std::vector<ChainLink> ChainOf(const Graph& graph, const Cluster& cluster, const Placement& placement) {
  const CostTable costs = MeasuredCosts(graph, cluster);
  const Simulator simulator(graph, cluster, costs, {.start_times = true});
  return agents::CriticalChain(graph, cluster, costs, placement, simulator.Run(placement).start_micros);
}

TEST(CriticalChainTest, SaysWhatEachOpWaitedFor) {
  // a 0-2 and b 2-5 on device 0; c reads b: its 1,000 bytes travel 5-6, c 6-7 on device 1; d reads c there, 7-8.
  const Graph graph = Build({MakeOp("a", 2), MakeOp("b", 3, {}, {1000}), MakeOp("c", 1, {"b"}), MakeOp("d", 1, {"c"})});
  const Placement placement({DeviceId{0}, DeviceId{0}, DeviceId{1}, DeviceId{1}});
  EXPECT_THAT(ChainOf(graph, MakeCluster(2), placement),
              ElementsAre(ChainLink{OpId{3}, Wait::kInput, OpId{2}}, ChainLink{OpId{2}, Wait::kTransfer, OpId{1}},
                          ChainLink{OpId{1}, Wait::kQueue, OpId{0}}, ChainLink{OpId{0}, Wait::kNothing, OpId{0}}));
}

TEST(CriticalChainTest, ATransferThatWaitedForAnotherIsATransfer) {
  // Device 0 sends the 2,000 bytes of a (1-3), then those of b (3-4), though b ended at 1.5. c, on idle device 1, reads
  // b's and starts at 4; without a's in the way it would have started at 2.5.
  const Graph graph =
      Build({MakeOp("a", 1, {}, {2000}), MakeOp("b", 0.5, {}, {1000}), MakeOp("x", 1, {"a"}), MakeOp("c", 1, {"b"})});
  const Placement placement({DeviceId{0}, DeviceId{0}, DeviceId{2}, DeviceId{1}});
  const std::vector<ChainLink> chain = ChainOf(graph, MakeCluster(3), placement);
  ASSERT_FALSE(chain.empty());
  const OpId c = *graph.FindOp("c");
  EXPECT_EQ(chain[0].op, c);
  EXPECT_EQ(chain[0].wait, Wait::kTransfer);
  EXPECT_EQ(chain[0].before, *graph.FindOp("b"));
}

TEST(CriticalChainTest, ControlEdgesAreInputsWithoutBytes) {
  OpSpec b = MakeOp("b", 1);
  b.control_inputs = {"a"};
  const Graph graph = Build({MakeOp("a", 2), b});
  EXPECT_THAT(ChainOf(graph, MakeCluster(2), Placement({DeviceId{0}, DeviceId{1}})),
              ElementsAre(ChainLink{OpId{1}, Wait::kTransfer, OpId{0}}, ChainLink{OpId{0}, Wait::kNothing, OpId{0}}));
}

TEST(CriticalChainTest, AnEmptyGraphHasNone) { EXPECT_TRUE(ChainOf(Graph(), MakeCluster(2), Placement()).empty()); }

// From the op that ends last to one that starts at once, and nobody starts before what it waited for has ended.
TEST(CriticalChainTest, ReachesFromTheEndToTheStartOfTheStep) {
  Rng rng(5);
  std::size_t transfers = 0;
  std::size_t queues = 0;
  for (int i = 0; i < 200; ++i) {
    const Graph graph = RandomDag(rng, {.num_ops = 40, .fractional = i % 2 == 0});
    const Cluster cluster = MakeCluster(3, {.bandwidth_gb_per_s = 1, .latency_micros = 0.5, .gap_micros = 0.25}, 0.125);
    const CostTable costs = MeasuredCosts(graph, cluster);
    const Placement placement = RandomPlacement(rng, graph, cluster, costs);
    const Simulator simulator(graph, cluster, costs, {.start_times = true});
    const StepResult result = simulator.Run(placement);
    const std::vector<ChainLink> chain = ChainOf(graph, cluster, placement);
    const auto start = [&](OpId op) { return result.start_micros[Index(op)]; };
    const auto end = [&](OpId op) { return start(op) + costs.Micros(op, placement[op]); };
    ASSERT_FALSE(chain.empty());
    EXPECT_NEAR(end(chain.front().op), result.step_time_micros, 2e-3);
    EXPECT_EQ(chain.back().wait, Wait::kNothing);
    EXPECT_NEAR(start(chain.back().op), 0, 2e-3);
    for (std::size_t k = 0; k + 1 < chain.size(); ++k) {
      EXPECT_EQ(chain[k].before, chain[k + 1].op);
      EXPECT_LE(end(chain[k].before), start(chain[k].op) + 2e-3);
      const bool together = placement[chain[k].op] == placement[chain[k].before];
      EXPECT_EQ(together, chain[k].wait != Wait::kTransfer);
      transfers += chain[k].wait == Wait::kTransfer ? 1 : 0;
      queues += chain[k].wait == Wait::kQueue ? 1 : 0;
    }
  }
  EXPECT_GT(transfers, 100U);
  EXPECT_GT(queues, 100U);
}

}  // namespace
}  // namespace emplace::testing
