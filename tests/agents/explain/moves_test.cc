#include "agents/explain/moves.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/simulator.h"
#include "sim/step_explanation.h"
#include "tests/testing/graphs.h"

namespace emplace::agents {
namespace {

using testing::Build;
using ::testing::IsEmpty;
using testing::MakeChain;
using testing::MakeCluster;
using testing::MakeOp;
using testing::MeasuredCosts;
using testing::RandomDag;
using testing::RandomPlacement;
using ::testing::SizeIs;

MoveResults Moves(const Graph& graph, const Cluster& cluster, const Placement& placement, std::size_t most = 1000,
                  const OnSimulations& on_simulations = {}) {
  const CostTable costs = MeasuredCosts(graph, cluster);
  const Simulator simulator(graph, cluster, costs);
  const StepExplanation explained =
      ExplainStep(graph, cluster, costs, placement, simulator.options(), simulator.Record(placement));
  return FindMoves(graph, cluster, costs, placement, explained, simulator, most, on_simulations);
}

TEST(MovesTest, TheOpThatHoldsUpAnotherGoesToTheIdleDevice) {
  // a and b, 10 us each, one after the other on gpu:0: 20 us. Either of them on gpu:1: 10 us.
  const MoveResults moves = Moves(Build({MakeOp("a", 10), MakeOp("b", 10)}), MakeCluster(2), Placement(2));
  // a, b, and both together, which gains nothing.
  EXPECT_EQ(moves.simulated, 3U);
  ASSERT_THAT(moves.gains, SizeIs(2));
  EXPECT_EQ(moves.gains[0].unit, MoveUnit::kOp);
  // First b, which waits and then runs: more of the chain is about it.
  EXPECT_EQ(moves.gains[0].ops, std::vector{MakeId<OpId>(1)});
  EXPECT_EQ(moves.gains[0].to, MakeId<DeviceId>(1));
  EXPECT_EQ(moves.gains[0].step_time_micros, 10);
  EXPECT_EQ(moves.gains[0].gain_micros, 10);
}

TEST(MovesTest, EachSimulationIsCounted) {
  std::vector<std::size_t> counted;
  const MoveResults moves =
      Moves(MakeChain(5, 4, 1000), MakeCluster(3), Placement(5), 6, [&](std::size_t done, std::size_t total) {
        counted.push_back(done);
        EXPECT_EQ(total, 6U);
      });
  EXPECT_EQ(moves.simulated, 6U);
  EXPECT_EQ(counted, (std::vector<std::size_t>{1, 2, 3, 4, 5, 6}));
}

TEST(MovesTest, NoMoveGainsOnAChainOnOneDevice) {
  const MoveResults moves = Moves(MakeChain(5, 4, 1000), MakeCluster(3), Placement(5));
  EXPECT_GT(moves.simulated, 5U);
  EXPECT_THAT(moves.gains, IsEmpty());
  EXPECT_EQ(Moves(MakeChain(5, 4, 1000), MakeCluster(1), Placement(5)).simulated, 0U) << "there is no other device";
}

TEST(MovesTest, ColocationClassesMoveWhole) {
  // The class {a, c} and b, 10 us each: {a, c} on gpu:0 and b on gpu:1 take 20 us.
  OpSpec c = MakeOp("c", 10);
  c.colocate_with = "a";
  const MoveResults moves = Moves(Build({MakeOp("a", 10), MakeOp("b", 10), c}), MakeCluster(2), Placement(3));
  ASSERT_THAT(moves.gains, SizeIs(2));
  EXPECT_EQ(moves.gains[0].gain_micros, 10);
  std::set<std::pair<MoveUnit, std::size_t>> found;
  for (const Move& move : moves.gains) found.emplace(move.unit, move.ops.size());
  EXPECT_EQ(found, (std::set<std::pair<MoveUnit, std::size_t>>{{MoveUnit::kColocationClass, 2}, {MoveUnit::kOp, 1}}));
}

TEST(MovesTest, ALayerMovesWholeWhereSingleOpsWouldNotGain) {
  // Each op of layer m sends 20,000 bytes, 20 us, to the next; x runs 30 us beside them on the same device.
  std::vector<OpSpec> specs = {MakeOp("m0", 5, {}, {20'000}), MakeOp("m1", 5, {"m0"}, {20'000}),
                               MakeOp("m2", 5, {"m1"}), MakeOp("x", 30)};
  for (std::size_t i = 0; i < 3; ++i) specs[i].layer = "m";
  const MoveResults moves = Moves(Build(specs), MakeCluster(2), Placement(4));
  ASSERT_FALSE(moves.gains.empty());
  EXPECT_EQ(moves.gains[0].gain_micros, 15);  // 45 us become 30
  const auto layer =
      std::find_if(moves.gains.begin(), moves.gains.end(), [](const Move& move) { return move.ops.size() == 3; });
  ASSERT_NE(layer, moves.gains.end());
  EXPECT_EQ(layer->step_time_micros, 30);
}

TEST(MovesTest, AMoveThatNeedsMoreMemoryThanThereIsIsLeftOut) {
  // gpu:1 may hold nothing.
  std::vector<Device> devices = MakeCluster(2).devices();
  devices[1].memory = Bytes{100};
  const Cluster cluster =
      Cluster::Uniform("test", devices, {.bandwidth_gb_per_s = 1, .latency_micros = 0, .gap_micros = 0});
  std::vector<OpSpec> specs = {MakeOp("a", 10), MakeOp("b", 10)};
  for (OpSpec& spec : specs) spec.persistent = Bytes{1000};
  const MoveResults moves = Moves(Build(specs), cluster, Placement(2));
  EXPECT_THAT(moves.gains, IsEmpty());
  EXPECT_EQ(moves.over_memory, 3U);
}

TEST(MovesTest, AnOpGoesNowhereWithoutATimeOrALink) {
  const Graph graph = Build({MakeOp("a", 10, {}, {8}), MakeOp("b", 10, {"a"}), MakeOp("c", 10)});
  std::vector<Link> links(4);  // none
  const Cluster cluster("test", "", MakeCluster(2).devices(), links, Channels::kPerDevice);
  for (const Move& move : Moves(graph, cluster, Placement(3)).gains) {
    const bool with_a = std::count(move.ops.begin(), move.ops.end(), *graph.FindOp("a")) > 0;
    const bool with_b = std::count(move.ops.begin(), move.ops.end(), *graph.FindOp("b")) > 0;
    EXPECT_EQ(with_a, with_b);
  }
}

TEST(MovesTest, AllGainsAreThoseOfTheSimulatorAndTheLimitHolds) {
  Rng rng(1);
  std::size_t gains = 0;
  for (int i = 0; i < 60; ++i) {
    const Graph graph = RandomDag(rng, {.num_ops = 40, .max_micros = 20, .kinds_differ = true, .colocated = true});
    const Cluster cluster = testing::MakeMixedCluster(3, Bytes{40'000});
    const CostTable costs = MeasuredCosts(graph, cluster);
    const Placement placement = RandomPlacement(rng, graph, cluster, costs);
    const Simulator simulator(graph, cluster, costs);
    const StepResult before = simulator.Run(placement);
    const MoveResults moves = Moves(graph, cluster, placement, 50);
    EXPECT_LE(moves.simulated, 50U);
    std::set<std::pair<std::vector<OpId>, DeviceId>> seen;
    double last_gain = before.step_time_micros;
    for (const Move& move : moves.gains) {
      EXPECT_TRUE(seen.emplace(move.ops, move.to).second) << "a move is tried once";
      Placement changed = placement;
      for (const OpId op : move.ops) {
        EXPECT_EQ(changed[op], move.from);
        changed[op] = move.to;
      }
      CheckPlacement(changed, graph, cluster, costs);
      const StepResult after = simulator.Run(changed);
      EXPECT_EQ(after.step_time_micros, move.step_time_micros);
      EXPECT_EQ(move.gain_micros, before.step_time_micros - after.step_time_micros);
      EXPECT_EQ(after.fits_memory, move.overflow_bytes == 0);
      EXPECT_LE(move.gain_micros, last_gain);
      last_gain = move.gain_micros;
    }
    gains += moves.gains.size();
  }
  EXPECT_GT(gains, 100U);
}

TEST(MovesTest, UnitsHaveNames) {
  EXPECT_EQ(Name(MoveUnit::kOp), "op");
  EXPECT_EQ(Name(MoveUnit::kLayer), "layer");
}

}  // namespace
}  // namespace emplace::agents
