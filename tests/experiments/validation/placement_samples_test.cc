#include "experiments/validation/placement_samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "sim/simulator.h"
#include "tests/testing/graphs.h"

namespace emplace {
namespace {

using ::testing::HasSubstr;

agents::SearchProblem Problem() {
  const Graph graph = testing::MakeForkJoin(6, 10, 1000);
  const Cluster cluster = testing::TwoDevices();
  return {.graph = graph, .cluster = cluster, .costs = testing::MeasuredCosts(graph, cluster), .grouping = "identity"};
}

TEST(PlacementSamplesTest, RandomPlacementsFollowTheSeedAndDiffer) {
  const auto placements = experiments::RandomPlacements(Problem(), 10, 3);
  ASSERT_EQ(placements.size(), 10U);
  EXPECT_EQ(placements[4].label, "random 4");
  const auto again = experiments::RandomPlacements(Problem(), 10, 3);
  std::set<std::vector<DeviceId>> distinct;
  for (std::size_t i = 0; i < 10; ++i) {
    EXPECT_EQ(placements[i].placement, again[i].placement);
    const auto devices = placements[i].placement.devices();
    distinct.insert({devices.begin(), devices.end()});
  }
  EXPECT_GE(distinct.size(), 8U);  // 2^8 placements are possible
}

TEST(PlacementSamplesTest, RandomPlacementsMayBeMostlyOnOneDevice) {
  const auto placements = experiments::RandomPlacements(Problem(), 100, 3, DeviceId{1});
  std::size_t there = 0;
  std::size_t all = 0;
  for (const experiments::SampledPlacement& one : placements) {
    for (const DeviceId device : one.placement.devices()) {
      there += device == DeviceId{1} ? 1 : 0;
      ++all;
    }
  }
  EXPECT_NEAR(static_cast<double>(there) / static_cast<double>(all), 0.975, 0.02);  // 19/20, and half of the rest
}

TEST(PlacementSamplesTest, AnAgentsPlacementsAreDifferentAndHaveItsBest) {
  agents::SearchSpec spec{{}, Problem()};
  spec.agent = "annealing";
  spec.evaluations = 60;
  const auto placements = experiments::AgentPlacements(spec, 7);
  ASSERT_EQ(placements.size(), 7U);
  EXPECT_THAT(placements[0].label, HasSubstr("annealing, evaluation "));
  const Simulator simulator(spec.problem.graph, spec.problem.cluster, spec.problem.costs);
  const double best = agents::RunSearch(spec).best_result.step_time_micros;
  double least = 1e300;
  std::set<std::vector<DeviceId>> distinct;
  for (const experiments::SampledPlacement& one : placements) {
    least = std::min(least, simulator.Run(one.placement).step_time_micros);
    const auto devices = one.placement.devices();
    distinct.insert({devices.begin(), devices.end()});
  }
  EXPECT_DOUBLE_EQ(least, best);
  EXPECT_EQ(distinct.size(), 7U);
  // From the best to twice that, or to the slowest that was tried.
  EXPECT_DOUBLE_EQ(simulator.Run(placements[0].placement).step_time_micros, best);
  const double slowest = simulator.Run(placements[6].placement).step_time_micros;
  EXPECT_GT(slowest, 1.3 * best);
  EXPECT_LE(slowest, 2.3 * best);
  const double middle = simulator.Run(placements[3].placement).step_time_micros;
  EXPECT_NEAR(middle, (best + slowest) / 2, 0.2 * best);
}

TEST(PlacementSamplesTest, AnAgentWithOneAnswerGivesOne) {
  agents::SearchSpec spec{{}, Problem()};
  spec.agent = "single_device";
  EXPECT_EQ(experiments::AgentPlacements(spec, 7).size(), 1U);
}

}  // namespace
}  // namespace emplace
