#include "agents/throughput/pipedream_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "agents/environment.h"
#include "agents/heuristics/pipedream.h"
#include "agents/search.h"
#include "agents/throughput/max_load_evaluator.h"
#include "sim/grouping.h"
#include "tests/testing/errors.h"
#include "tests/testing/graphs.h"
#include "tests/testing/searches.h"

namespace emplace::testing {
namespace {

using agents::BandwidthLevel;
using agents::LayerChain;
using agents::PipeDreamPlan;
using agents::PlanPipeDream;
using agents::ReplicatedStage;
using ::testing::ElementsAre;

constexpr double kNoPlan = std::numeric_limits<double>::infinity();

double Sum(const std::vector<double>& of, std::size_t first, std::size_t last) {
  return std::accumulate(of.begin() + static_cast<std::ptrdiff_t>(first),
                         of.begin() + static_cast<std::ptrdiff_t>(last) + 1, 0.0);
}

// The least time, by trying every split into stages and every number of components for each, level within level. No
// table: first stages first.
double LeastTimeOfAll(const LayerChain& chain, const std::vector<BandwidthLevel>& levels, std::size_t level,
                      std::size_t first, std::size_t last, std::size_t components, bool replicas) {
  const auto stage = [&](std::size_t from, std::size_t to, std::size_t count) {
    const double compute =
        level == 0 ? Sum(chain.micros, from, to)
                   : LeastTimeOfAll(chain, levels, level - 1, from, to, levels[level - 1].components, replicas);
    const double share = static_cast<double>(count);
    const double sync = 2 * (share - 1) / share * Sum(chain.weight_bytes, from, to) / levels[level].bytes_per_micro;
    return std::max(compute / share, count == 1 ? 0 : sync);
  };
  double least = kNoPlan;
  for (std::size_t count = 1; count <= components; ++count) {
    if (!replicas && count > 1) break;
    if (count == components || !replicas) least = std::min(least, stage(first, last, count));
    for (std::size_t end = first; end < last && count < components; ++end) {
      const double rest = LeastTimeOfAll(chain, levels, level, end + 1, last, components - count, replicas);
      least = std::min(
          least, std::max({stage(first, end, count), chain.sent_bytes[end] / levels[level].bytes_per_micro, rest}));
    }
  }
  return least;
}

LayerChain RandomChain(Rng& rng, std::size_t layers) {
  LayerChain chain;
  for (std::size_t layer = 0; layer < layers; ++layer) {
    chain.micros.push_back(static_cast<double>(rng.Below(20)));
    chain.sent_bytes.push_back(static_cast<double>(rng.Below(40)));
    chain.weight_bytes.push_back(static_cast<double>(rng.Below(40)));
  }
  return chain;
}

// The time of a plan from its stages, on one level.
double MicrosOf(const LayerChain& chain, const BandwidthLevel& level, const std::vector<ReplicatedStage>& stages) {
  double most = 0;
  for (const ReplicatedStage& stage : stages) {
    const auto count = static_cast<double>(stage.replicas);
    most = std::max(most, Sum(chain.micros, stage.first, stage.last) / count);
    most = std::max(most,
                    2 * (count - 1) / count * Sum(chain.weight_bytes, stage.first, stage.last) / level.bytes_per_micro);
    if (stage.last + 1 < chain.size()) most = std::max(most, chain.sent_bytes[stage.last] / level.bytes_per_micro);
  }
  return most;
}

TEST(PipeDreamPlanTest, NoPlanOfARandomChainIsBetter) {
  Rng rng(1);
  for (int round = 0; round < 200; ++round) {
    SCOPED_TRACE(round);
    const LayerChain chain = RandomChain(rng, 1 + rng.Below(6));
    const std::vector<BandwidthLevel> levels = {
        {.components = 1 + rng.Below(4), .bytes_per_micro = 1 + static_cast<double>(rng.Below(4))}};
    for (const bool replicas : {false, true}) {
      const PipeDreamPlan plan = PlanPipeDream(chain, levels, replicas);
      EXPECT_NEAR(plan.micros, LeastTimeOfAll(chain, levels, 0, 0, chain.size() - 1, levels[0].components, replicas),
                  1e-9);
      EXPECT_NEAR(plan.micros, MicrosOf(chain, levels[0], plan.stages), 1e-9);
      EXPECT_EQ(plan.stages.front().first, 0U);
      EXPECT_EQ(plan.stages.back().last, chain.size() - 1);
    }
  }
}

TEST(PipeDreamPlanTest, NoPlanOnLevelsIsBetter) {
  Rng rng(2);
  for (int round = 0; round < 100; ++round) {
    SCOPED_TRACE(round);
    const LayerChain chain = RandomChain(rng, 1 + rng.Below(5));
    const std::vector<BandwidthLevel> levels = {{.components = 2, .bytes_per_micro = 8},
                                                {.components = 1 + rng.Below(3), .bytes_per_micro = 2}};
    for (const bool replicas : {false, true}) {
      EXPECT_NEAR(PlanPipeDream(chain, levels, replicas).micros,
                  LeastTimeOfAll(chain, levels, 1, 0, chain.size() - 1, levels[1].components, replicas), 1e-9);
    }
  }
}

TEST(PipeDreamPlanTest, HeavyLayersWithFewWeightsAreReplicated) {
  // As in VGG-16: convolutions first, then a layer of weights.
  const LayerChain chain{.micros = {30, 30, 20}, .sent_bytes = {100, 10, 0}, .weight_bytes = {1, 1, 1000}};
  const PipeDreamPlan plan = PlanPipeDream(chain, {{.components = 4, .bytes_per_micro = 1}}, true);
  EXPECT_THAT(plan.stages, ElementsAre(ReplicatedStage{.first = 0, .last = 1, .replicas = 3, .first_device = 0},
                                       ReplicatedStage{.first = 2, .last = 2, .replicas = 1, .first_device = 3}));
  EXPECT_EQ(plan.micros, 20);
}

TEST(PipeDreamPlanTest, StagesOfAComponentStayInIt) {
  // Two nodes of two devices. A transfer between nodes takes 10 us, within a node 1.
  const LayerChain chain{.micros = {8, 2, 8, 2}, .sent_bytes = {100, 100, 100, 0}, .weight_bytes = {0, 0, 0, 0}};
  const PipeDreamPlan plan = PlanPipeDream(
      chain, {{.components = 2, .bytes_per_micro = 100}, {.components = 2, .bytes_per_micro = 10}}, false);
  EXPECT_EQ(plan.micros, 10);
  EXPECT_EQ(plan.stages.size(), 2U);
  // Where the last stage is the other node's, its first device is the third.
  const LayerChain cut{.micros = {8, 8}, .sent_bytes = {20, 0}, .weight_bytes = {0, 0}};
  const PipeDreamPlan two =
      PlanPipeDream(cut, {{.components = 2, .bytes_per_micro = 1}, {.components = 2, .bytes_per_micro = 10}}, false);
  EXPECT_THAT(two.stages, ElementsAre(ReplicatedStage{.first = 0, .last = 0, .replicas = 1, .first_device = 0},
                                      ReplicatedStage{.first = 1, .last = 1, .replicas = 1, .first_device = 2}));
}

TEST(PipeDreamPlanTest, TooManyLayersAreRefused) {
  const LayerChain chain{.micros = std::vector<double>(5000, 1),
                         .sent_bytes = std::vector<double>(5000, 1),
                         .weight_bytes = std::vector<double>(5000, 1)};
  EXPECT_EQ(
      ErrorOf([&] {
        PlanPipeDream(chain, {{.components = 8, .bytes_per_micro = 9}, {.components = 2, .bytes_per_micro = 1}}, true);
      }),
      "5000 layers on 2 levels of links take 6.7e+11 steps (at most 2e+09: --grouping merge_and_colocate --groups "
      "N, or links=flat)");
}

TEST(PipeDreamPlanTest, ChainsHoldWhatIsSentBothWays) {
  OpSpec weights = MakeOp("w", 0, {}, {300});
  weights.kind = "variable";
  weights.layer = "0";
  OpSpec first = MakeOp("f0", 1, {"w"}, {1000});
  first.layer = "0";
  OpSpec second = MakeOp("f1", 2, {"f0"}, {7});
  second.layer = "1";
  OpSpec back = MakeOp("b1", 4, {"f1"}, {500});
  back.layer = "1";
  back.pass = Pass::kBackward;
  OpSpec last = MakeOp("b0", 8, {"b1", "f0"}, {0});
  last.layer = "0";
  last.pass = Pass::kBackward;
  const Graph graph = Build({weights, first, second, back, last});
  const Cluster cluster = MakeCluster(2);
  const agents::StageCosts costs = agents::MakeStageCosts(graph, cluster, MeasuredCosts(graph, cluster));
  const agents::ContiguousUnits units = agents::MakeContiguousUnits(graph, ColocationClasses(graph), costs);
  const LayerChain chain = agents::MakeLayerChain(graph, units, costs, {MakeId<DeviceId>(0), MakeId<DeviceId>(1)});
  EXPECT_THAT(chain.micros, ElementsAre(9, 6));
  EXPECT_THAT(chain.sent_bytes, ElementsAre(1500, 0));
  EXPECT_THAT(chain.weight_bytes, ElementsAre(300, 0));
}

std::vector<DeviceId> AllOf(const Cluster& cluster) {
  std::vector<DeviceId> all;
  for (std::size_t d = 0; d < cluster.num_devices(); ++d) all.push_back(MakeId<DeviceId>(d));
  return all;
}

TEST(FindHierarchyTest, FastLinksAreWithinSlowOnes) {
  // Devices 0 and 2 are a node, and 1 and 3.
  std::vector<Link> links(16, {.bandwidth_gb_per_s = 1});
  for (const std::size_t i : {2U, 8U, 7U, 13U}) links[i].bandwidth_gb_per_s = 10;
  const Cluster cluster("c", "", RowOfDevices(4), links, Channels::kPerDevice);
  const agents::DeviceHierarchy found = agents::FindHierarchy(cluster, AllOf(cluster));
  ASSERT_EQ(found.levels.size(), 2U);
  EXPECT_EQ(found.levels[0].components, 2U);
  EXPECT_EQ(found.levels[0].bytes_per_micro, 10'000);
  EXPECT_EQ(found.levels[1].components, 2U);
  EXPECT_EQ(found.levels[1].bytes_per_micro, 1000);
  std::vector<std::size_t> order;
  for (const DeviceId device : found.devices) order.push_back(Index(device));
  EXPECT_THAT(order, ElementsAre(0, 2, 1, 3));
  const agents::DeviceHierarchy flat = agents::FindHierarchy(cluster, AllOf(cluster), /*flat=*/true);
  ASSERT_EQ(flat.levels.size(), 1U);
  EXPECT_EQ(flat.levels[0].components, 4U);
  EXPECT_EQ(flat.levels[0].bytes_per_micro, 4000);
}

TEST(FindHierarchyTest, UnequalNodesAreOneLevel) {
  std::vector<Link> links(9, {.bandwidth_gb_per_s = 1});
  links[1].bandwidth_gb_per_s = links[3].bandwidth_gb_per_s = 4;
  const Cluster cluster("c", "", RowOfDevices(3), links, Channels::kPerDevice);
  const agents::DeviceHierarchy found = agents::FindHierarchy(cluster, AllOf(cluster));
  ASSERT_EQ(found.levels.size(), 1U);
  EXPECT_EQ(found.levels[0].components, 3U);
  EXPECT_EQ(agents::FindHierarchy(MakeCluster(1), {MakeId<DeviceId>(0)}).levels.size(), 1U);
}

TEST(PipeDreamTest, PlacesThePlanWithoutReplicasAndTellsTheOther) {
  const Graph graph = MakeChain(6, 10, 1000);
  EXPECT_EQ(PlacedBy("pipedream", graph, MakeCluster(3)), (std::vector<std::size_t>{0, 0, 1, 1, 2, 2}));
  const agents::SearchResult result = agents::RunSearch(MakeSearch(graph, MakeCluster(3), "pipedream"));
  EXPECT_EQ(result.note,
            "plan with replicas: 1 stage, 3, 0.020 ms for each micro-batch (layers 0 to 5 on 3); this placement, as "
            "planned: 3 stages, straight, 0.020 ms");
}

TEST(PipeDreamTest, PlansOnAcceleratorsOnly) {
  const Graph graph = MakeTwoOpsForTheAccelerator();
  const Cluster cluster = MakeMixedCluster(2);
  const agents::SearchSpec spec = MakeSearch(graph, cluster, "pipedream");
  const agents::MaxLoadEvaluator evaluator(agents::MakeStageCosts(graph, cluster, spec.problem.costs));
  const agents::Environment env(graph, cluster, spec.problem.costs, ColocationClasses(graph), evaluator);
  const agents::PipeDreamAnswer answer = agents::PlaceAsPipeDream(env, {});
  EXPECT_EQ(answer.straight.micros, 10);
  EXPECT_EQ(answer.straight.stages.size(), 2U);
  EXPECT_EQ(answer.replicated.micros, 10);
}

}  // namespace
}  // namespace emplace::testing
