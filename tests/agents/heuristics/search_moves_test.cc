#include "agents/heuristics/search_moves.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "agents/saved_state.h"
#include "sim/base/check.h"
#include "sim/simulator.h"
#include "tests/testing/graphs.h"

namespace emplace::testing {
namespace {

// An environment of ops with what it refers to, and its levels.
struct MovesWorld {
  MovesWorld(Graph g, Cluster c)
      : graph(std::move(g)),
        cluster(std::move(c)),
        costs(MeasuredCosts(graph, cluster)),
        simulator(graph, cluster, costs),
        env(graph, cluster, costs, ColocationClasses(graph), simulator),
        levels(agents::MakeSearchLevels(env)),
        all_bytes(agents::AllBytes(env.observation())) {}

  agents::SearchPosition At(const Placement& placement) {
    const Simulator recorder(graph, cluster, costs, {.peak_memory = true, .start_times = true});
    const agents::Outcome outcome{recorder.Run(env.grouping().Expand(placement)), 0};
    return agents::MakePosition(env, all_bytes, placement, agents::ScoreOf(outcome, cluster), outcome);
  }

  Graph graph;
  Cluster cluster;
  CostTable costs;
  Simulator simulator;
  agents::Environment env;
  std::vector<agents::SearchLevel> levels;
  double all_bytes;
};

// Ops of 30 persistent bytes that do not know of each other, on devices of 120.
MovesWorld FullDevices(std::size_t num_ops) {
  std::vector<OpSpec> specs;
  for (std::size_t i = 0; i < num_ops; ++i) {
    specs.push_back(MakeOp("a" + std::to_string(i), 1));
    specs.back().persistent = Bytes{30};
  }
  return {Build(specs), MakeCluster(2, {.bandwidth_gb_per_s = 1, .latency_micros = 0, .gap_micros = 0}, 0, Bytes{120})};
}

// Where some changes of single ops lead to.
std::vector<agents::SearchPosition> Changes(MovesWorld& world, const agents::SearchPosition& from, std::uint64_t seed,
                                            std::size_t count) {
  Rng rng(seed);
  agents::SearchMoves moves(world.env, world.levels, rng);
  std::vector<agents::SearchPosition> positions;
  while (positions.size() < count) positions.push_back(world.At(moves.Changed(from, 0, 0)));
  return positions;
}

Placement OfDevices(const std::vector<std::size_t>& devices) {
  Placement placement(devices.size());
  for (std::size_t i = 0; i < devices.size(); ++i) placement[MakeId<OpId>(i)] = MakeId<DeviceId>(devices[i]);
  return placement;
}

TEST(SearchMovesTest, APositionHoldsTheChainAndTheRoomLeft) {
  MovesWorld world = FullDevices(8);
  EXPECT_EQ(world.all_bytes, 240);
  const agents::SearchPosition position = world.At(OfDevices({0, 0, 0, 0, 0, 0, 1, 1}));
  EXPECT_EQ(position.chain.size(), 6U);
  EXPECT_FALSE(position.score.fits);
  EXPECT_EQ(position.over_bytes, (std::vector<double>{60, -60}));
  EXPECT_EQ(position.live_share, 1.0);
}

TEST(SearchMovesTest, SavedAPositionIsReadBack) {
  MovesWorld world = FullDevices(8);
  const agents::SearchPosition position = world.At(OfDevices({0, 1, 0, 0, 0, 1, 1, 1}));
  std::stringstream text;
  agents::SaveState(text, position);
  agents::SearchPosition read;
  agents::LoadState(text, &read);
  EXPECT_EQ(read.placement, position.placement);
  EXPECT_EQ(read.score, position.score);
  EXPECT_EQ(read.chain, position.chain);
  EXPECT_EQ(read.over_bytes, position.over_bytes);
  EXPECT_EQ(read.live_share, position.live_share);
  std::stringstream damaged("0 1 0 0 1 2 9 0 ");
  EXPECT_THROW(agents::LoadState(damaged, &read), InputError);
}

TEST(SearchMovesTest, ChangesFollowWhereOpsMayRunAndWhichMoveTogether) {
  Rng rng(31);
  MovesWorld world(RandomDag(rng, {.num_ops = 150, .kinds_differ = true, .colocated = true}), MakeMixedCluster(3));
  ASSERT_GT(world.levels.size(), 1U);
  const std::size_t groups = world.env.observation().num_groups();
  Placement start(groups);
  for (std::size_t group = 0; group < groups; ++group) {
    start[MakeId<OpId>(group)] = world.env.observation().Fastest(group, world.env.observation().accelerators);
  }
  const agents::SearchPosition from = world.At(start);
  agents::SearchMoves moves(world.env, world.levels, rng);
  std::size_t moved = 0;
  for (int i = 0; i < 400; ++i) {
    const Placement changed = moves.Changed(from, static_cast<std::size_t>(i) % world.levels.size(), 0.2);
    EXPECT_NO_THROW(CheckPlacement(world.env.grouping().Expand(changed), world.graph, world.cluster, world.costs)) << i;
    moved += changed == start ? 0 : 1;
  }
  EXPECT_GT(moved, 380U);
}

// Both devices are full: what one receives, it must give.
TEST(SearchMovesTest, MakesRoomForWhatADeviceReceives) {
  MovesWorld world = FullDevices(8);
  const agents::SearchPosition from = world.At(OfDevices({0, 1, 0, 1, 0, 1, 0, 1}));
  std::size_t fits = 0;
  std::size_t swaps = 0;
  for (const agents::SearchPosition& to : Changes(world, from, 32, 300)) {
    if (!to.score.fits) continue;
    ++fits;
    swaps += to.placement == from.placement ? 0 : 1;
  }
  EXPECT_GT(fits, 240U) << "nine of ten changes make room";
  EXPECT_GT(swaps, 200U);
}

TEST(SearchMovesTest, UnloadsTheDeviceThatIsOver) {
  MovesWorld world = FullDevices(8);
  const agents::SearchPosition from = world.At(OfDevices({0, 0, 0, 0, 0, 0, 0, 1}));
  std::size_t better = 0;
  for (const agents::SearchPosition& to : Changes(world, from, 33, 200)) {
    better += to.score.BetterThan(from.score) ? 1 : 0;
  }
  EXPECT_GT(better, 120U) << "three of four changes unload";
}

}  // namespace
}  // namespace emplace::testing
