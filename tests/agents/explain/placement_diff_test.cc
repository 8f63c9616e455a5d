#include "agents/explain/placement_diff.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "sim/simulator.h"
#include "tests/testing/graphs.h"

namespace emplace::agents {
namespace {

using testing::Build;
using ::testing::IsEmpty;
using testing::MakeCluster;
using testing::MakeOp;
using testing::MeasuredCosts;
using testing::RandomDag;
using testing::RandomPlacement;
using ::testing::SizeIs;

PlacementDiff Diff(const Graph& graph, const Cluster& cluster, const Placement& a, const Placement& b,
                   std::size_t most = 500) {
  const CostTable costs = MeasuredCosts(graph, cluster);
  return DiffPlacements(graph, cluster, costs, a, b, Simulator(graph, cluster, costs), most);
}

Placement On(const std::vector<std::size_t>& devices) {
  std::vector<DeviceId> ids;
  ids.reserve(devices.size());
  for (const std::size_t device : devices) ids.push_back(MakeId<DeviceId>(device));
  return Placement(ids);
}

TEST(PlacementDiffTest, EqualPlacementsHaveNoPieces) {
  const PlacementDiff diff = Diff(Build({MakeOp("a", 10)}), MakeCluster(2), Placement(1), Placement(1));
  EXPECT_EQ(diff.moved_ops, 0U);
  EXPECT_THAT(diff.pieces, IsEmpty());
  EXPECT_EQ(diff.a.step_time_micros, diff.b.step_time_micros);
}

TEST(PlacementDiffTest, ConnectedOpsOfOneMoveAreOnePiece) {
  // a -> b go to gpu:1, c alone too, d to gpu:2. On gpu:0 all take 40 us. Alone, a and b gain 20, c and d 10 each; the
  // first piece is a and b. With c it takes 30 on gpu:1; then d leaves nothing on gpu:0.
  const Graph graph = Build({MakeOp("a", 10), MakeOp("b", 10, {"a"}), MakeOp("c", 10), MakeOp("d", 10)});
  const PlacementDiff diff = Diff(graph, MakeCluster(3), Placement(4), On({1, 1, 1, 2}));
  EXPECT_EQ(diff.moved_ops, 4U);
  ASSERT_THAT(diff.pieces, SizeIs(3));
  EXPECT_EQ(diff.pieces[0].ops, (std::vector{MakeId<OpId>(0), MakeId<OpId>(1)}));
  EXPECT_EQ(diff.pieces[0].alone->step_time_micros, 20);
  EXPECT_EQ(diff.pieces[0].cumulative->step_time_micros, 20);
  EXPECT_EQ(diff.pieces[1].alone->step_time_micros, 30);
  EXPECT_EQ(diff.pieces[1].cumulative->step_time_micros, 30);
  EXPECT_EQ(diff.pieces[2].to, MakeId<DeviceId>(2));
  EXPECT_EQ(diff.pieces[2].cumulative->step_time_micros, 30);
  EXPECT_EQ(diff.b.step_time_micros, 30);
}

TEST(PlacementDiffTest, OpsOfAColocationClassAreOnePieceAndControlInputsJoinToo) {
  OpSpec c = MakeOp("c", 1);
  c.colocate_with = "a";
  OpSpec d = MakeOp("d", 1);
  d.control_inputs = {"c"};
  const Graph graph = Build({MakeOp("a", 1), MakeOp("b", 1), c, d});
  EXPECT_THAT(Diff(graph, MakeCluster(2), Placement(4), On({1, 0, 1, 1})).pieces, SizeIs(1));
}

TEST(PlacementDiffTest, OpsOfALayerAreOnePieceOnRequest) {
  std::vector<OpSpec> specs = {MakeOp("a", 1), MakeOp("b", 1), MakeOp("c", 1), MakeOp("d", 1, {"c"})};
  specs[0].layer = specs[1].layer = "m";
  const Graph graph = Build(specs);
  const CostTable costs = MeasuredCosts(graph, MakeCluster(2));
  const Cluster cluster = MakeCluster(2);
  const Simulator simulator(graph, cluster, costs);
  const Placement b(4, MakeId<DeviceId>(1));
  EXPECT_THAT(DiffPlacements(graph, cluster, costs, Placement(4), b, simulator, 10).pieces, SizeIs(3));
  std::vector<std::pair<std::size_t, std::size_t>> counted;
  EXPECT_THAT(DiffPlacements(graph, cluster, costs, Placement(4), b, simulator, 10, DiffBy::kLayer,
                             [&](std::size_t done, std::size_t total) { counted.emplace_back(done, total); })
                  .pieces,
              SizeIs(2));
  EXPECT_EQ(counted.size(), 4U);
  EXPECT_EQ(counted.back(), (std::pair<std::size_t, std::size_t>{4, 4}));
}

TEST(PlacementDiffTest, APieceThatCannotRunAloneHasNoStep) {
  // Only gpu:0 -> gpu:1 and gpu:1 -> gpu:2 are linked. b, which reads a, can go to gpu:2 only after a went to gpu:1.
  const Graph graph = Build({MakeOp("a", 1, {}, {1000}), MakeOp("b", 1, {"a"})});
  std::vector<Link> links(9);
  links[1] = links[5] = {.bandwidth_gb_per_s = 1, .latency_micros = 0, .gap_micros = 0};
  const Cluster cluster("test", "", MakeCluster(3).devices(), links, Channels::kPerDevice);
  // Moving a first, to gpu:1, would send backwards to gpu:0; so neither runs alone, and together they do.
  const PlacementDiff diff = Diff(graph, cluster, Placement(2), On({1, 2}));
  ASSERT_THAT(diff.pieces, SizeIs(2));
  EXPECT_FALSE(diff.pieces[0].alone.has_value());
  EXPECT_FALSE(diff.pieces[0].cumulative.has_value());
  EXPECT_FALSE(diff.pieces[1].alone.has_value());
  EXPECT_EQ(diff.pieces[1].cumulative->step_time_micros, 3);
}

TEST(PlacementDiffTest, BeyondTheLimitPiecesAreJoined) {
  std::vector<OpSpec> specs;
  specs.reserve(10);
  for (int i = 0; i < 10; ++i) specs.push_back(MakeOp("op" + std::to_string(i), 10 + i));
  const PlacementDiff diff = Diff(Build(specs), MakeCluster(2), Placement(10), Placement(10, MakeId<DeviceId>(1)), 4);
  ASSERT_THAT(diff.pieces, SizeIs(4));
  EXPECT_EQ(diff.joined_pieces, 7U);
  EXPECT_THAT(diff.pieces[3].ops, SizeIs(7));
  EXPECT_FALSE(diff.pieces[3].from.has_value());
  EXPECT_EQ(diff.pieces[0].ops[0], MakeId<OpId>(9)) << "the longest gains most alone";
  EXPECT_EQ(diff.moved_ops, 10U);
}

TEST(PlacementDiffTest, AllPiecesTogetherAreTheSecondPlacement) {
  Rng rng(2);
  for (int i = 0; i < 200; ++i) {
    const Graph graph =
        RandomDag(rng, {.num_ops = 40, .max_micros = 20, .kinds_differ = true, .memory = true, .colocated = true});
    const Cluster cluster = testing::MakeMixedCluster(3, Bytes{40'000});
    const CostTable costs = MeasuredCosts(graph, cluster);
    const Placement a = RandomPlacement(rng, graph, cluster, costs);
    const Placement b = RandomPlacement(rng, graph, cluster, costs);
    const Simulator simulator(graph, cluster, costs);
    const PlacementDiff diff = DiffPlacements(graph, cluster, costs, a, b, simulator, 1 + rng.Below(30));
    ASSERT_FALSE(diff.pieces.empty());
    EXPECT_EQ(diff.a.step_time_micros, simulator.Run(a).step_time_micros);
    EXPECT_EQ(diff.pieces.back().cumulative->step_time_micros, simulator.Run(b).step_time_micros);
    EXPECT_EQ(diff.pieces.back().cumulative->overflow_bytes, diff.b.overflow_bytes);
    Placement changed = a;
    std::size_t moved = 0;
    for (const DiffPiece& piece : diff.pieces) {
      Placement alone = a;
      for (const OpId op : piece.ops) {
        EXPECT_NE(a[op], b[op]);
        alone[op] = changed[op] = b[op];
        ++moved;
      }
      CheckPlacement(alone, graph, cluster, costs);
      EXPECT_EQ(piece.alone->step_time_micros, simulator.Run(alone).step_time_micros);
      EXPECT_EQ(piece.alone->overflow_bytes == 0, simulator.Run(alone).fits_memory);
      EXPECT_EQ(piece.cumulative->step_time_micros, simulator.Run(changed).step_time_micros);
    }
    EXPECT_EQ(changed, b);
    EXPECT_EQ(moved, diff.moved_ops);
  }
}

}  // namespace
}  // namespace emplace::agents
