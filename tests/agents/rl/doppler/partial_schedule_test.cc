#include "agents/rl/doppler/partial_schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/simulator.h"
#include "tests/testing/graphs.h"
#include "tests/testing/observations.h"

namespace emplace::agents {
namespace {

using ::emplace::testing::MakeCluster;
using ::emplace::testing::MakeObservation;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;

std::vector<int> Bits(std::span<const std::uint8_t> flags) { return {flags.begin(), flags.end()}; }

Duration Micros(double micros) { return DurationFromMicros(micros); }

// a (10 us) sends 1000 bytes, 1 us, to b (20 us) and c (5 us); both send as many to d (1 us).
Graph Unequal() {
  return testing::Build({testing::MakeOp("a", 10, {}, {1000}), testing::MakeOp("b", 20, {"a"}, {1000}),
                         testing::MakeOp("c", 5, {"a"}, {1000}), testing::MakeOp("d", 1, {"b", "c"})});
}

TEST(AssignmentProblemTest, PathsAreTheLongestWithTheirTransfers) {
  const AssignmentProblem problem(MakeObservation(Unequal(), MakeCluster(2)), /*use_cpus=*/false);
  EXPECT_THAT(problem.to_exit, ElementsAre(10 + 1 + 20 + 1 + 1, 20 + 1 + 1, 5 + 1 + 1, 1));
  EXPECT_THAT(problem.from_entry, ElementsAre(10, 10 + 1 + 20, 10 + 1 + 5, 10 + 1 + 20 + 1 + 1));
  EXPECT_THAT(problem.next, ElementsAre(1, 3, 3, kNoGroup));
  EXPECT_THAT(problem.previous, ElementsAre(kNoGroup, 0, 0, 1));
  EXPECT_DOUBLE_EQ(problem.mean_micros, 9);
  EXPECT_THAT(problem.neighbours[1], UnorderedElementsAre(0, 3));
}

TEST(AssignmentProblemTest, FeaturesHaveMeanZeroAndDeviationOne) {
  Rng rng(3);
  const Graph graph = testing::RandomDag(rng, {.num_ops = 40, .memory = true, .fractional = true});
  const AssignmentProblem problem(MakeObservation(graph, MakeCluster(2)), false);
  for (std::size_t i = 0; i < kAssignmentNodeFeatures; ++i) {
    double sum = 0;
    double squares = 0;
    for (std::size_t group = 0; group < 40; ++group) {
      sum += problem.features.row(group)[i];
      squares += std::pow(problem.features.row(group)[i], 2);
    }
    EXPECT_NEAR(sum / 40, 0, 1e-5) << "column " << i;
    EXPECT_NEAR(squares / 40, 1, 1e-4) << "column " << i;
  }
}

TEST(PartialScheduleTest, GroupsRunWhenInputsAndDeviceAreThere) {
  const Observation seen = MakeObservation(Unequal(), MakeCluster(2));
  const AssignmentProblem problem(seen, false);
  PartialSchedule schedule(seen, problem);
  EXPECT_THAT(schedule.ready(), ElementsAre(0));
  schedule.Consider(0);
  EXPECT_THAT(Bits(schedule.earliest()), ElementsAre(1, 1));
  schedule.Assign(0, 0);
  EXPECT_THAT(schedule.ready(), UnorderedElementsAre(1, 2));
  ASSERT_EQ(schedule.Critical().size(), 1U);
  EXPECT_EQ(schedule.ready()[schedule.Critical()[0]], 1U);
  schedule.Consider(1);
  EXPECT_THAT(Bits(schedule.earliest()), ElementsAre(1, 0));
  schedule.Assign(1, 0);
  schedule.Consider(2);  // device 0 is busy until 30; the tensor of a would be on device 1 at 11
  EXPECT_THAT(Bits(schedule.earliest()), ElementsAre(0, 1));
  // Time of the groups there, of the producers there, and transfers: of two values one is 1, the other -1.
  EXPECT_FLOAT_EQ(schedule.features().row(0)[0], 1);
  EXPECT_FLOAT_EQ(schedule.features().row(1)[0], -1);
  EXPECT_FLOAT_EQ(schedule.features().row(0)[1], 1);
  EXPECT_FLOAT_EQ(schedule.features().row(0)[5], 0);
  EXPECT_FLOAT_EQ(schedule.features().row(1)[7], 1);
  EXPECT_NEAR(schedule.features().row(0)[9], std::log1p((35 - 16) / 9.0), 1e-6);
  schedule.Assign(2, 1);
  EXPECT_EQ(schedule.start(2), Micros(11));
  schedule.Consider(3);
  schedule.Assign(3, 0);
  EXPECT_EQ(schedule.start(3), Micros(30));
  EXPECT_EQ(schedule.end(3), Micros(31));
  EXPECT_THAT(schedule.ready(), IsEmpty());
  EXPECT_THAT(testing::Devices(schedule.placement()), ElementsAre(0, 0, 1, 0));
}

// Outputs are held until the last consumer is assigned.
TEST(PartialScheduleTest, OutputsAreHeldUntilTheyWereRead) {
  const Observation seen =
      MakeObservation(testing::MakeChain(3, 1, 40),
                      MakeCluster(2, {.bandwidth_gb_per_s = 1, .latency_micros = 0, .gap_micros = 0}, 0, Bytes{100}));
  const AssignmentProblem problem(seen, false);
  PartialSchedule schedule(seen, problem);
  for (const double held : {0.0, 0.4, 0.4}) {
    const std::uint32_t group = schedule.ready()[0];
    schedule.Consider(group);
    EXPECT_NEAR(schedule.features().row(0)[10], held, 1e-6);
    schedule.Assign(group, 0);
  }
}

// One device sends two tensors of 1 us each one after the other; the second time, a tensor is already there.
TEST(PartialScheduleTest, TransfersOfASenderWaitAndATensorIsSentOnce) {
  const Graph graph = testing::Build({testing::MakeOp("a", 10, {}, {1000, 1000}),
                                      testing::MakeOp("b", 2, {"a:0", "a:1"}), testing::MakeOp("c", 3, {"a:1"})});
  const Observation seen = MakeObservation(graph, MakeCluster(3));
  const AssignmentProblem problem(seen, false);
  PartialSchedule schedule(seen, problem);
  for (const auto& [group, device] : {std::pair(0U, 0U), std::pair(1U, 1U), std::pair(2U, 1U)}) {
    schedule.Consider(group);
    schedule.Assign(group, device);
  }
  EXPECT_EQ(schedule.start(1), Micros(12));
  EXPECT_EQ(schedule.start(2), Micros(14));
}

TEST(PartialScheduleTest, DevicesWithoutRoomAreLeftOut) {
  std::vector<OpSpec> ops;
  for (const char* const name : {"a", "b", "c"}) {
    ops.push_back(testing::MakeOp(name, 1));
    ops.back().persistent = Bytes{60};
  }
  const Observation seen =
      MakeObservation(testing::Build(ops),
                      MakeCluster(2, {.bandwidth_gb_per_s = 1, .latency_micros = 0, .gap_micros = 0}, 0, Bytes{100}));
  const AssignmentProblem problem(seen, false);
  PartialSchedule schedule(seen, problem);
  schedule.Consider(0);
  EXPECT_THAT(Bits(schedule.allowed()), ElementsAre(1, 1));
  schedule.Assign(0, 1);
  schedule.Consider(1);
  EXPECT_THAT(Bits(schedule.allowed()), ElementsAre(1, 0));
  EXPECT_NEAR(schedule.features().row(0)[10], 0, 1e-6);
  schedule.Assign(1, 0);
  schedule.Consider(2);  // it fits nowhere
  EXPECT_THAT(Bits(schedule.allowed()), ElementsAre(1, 1));
  EXPECT_NEAR(schedule.features().row(0)[10], 0.6, 1e-6);
}

TEST(PlaceByCriticalPathTest, SpreadsChainsAndPrefersTheFasterDevice) {
  const Observation chains = MakeObservation(testing::MakeTwoChains(), MakeCluster(2));
  const std::vector<int> devices = testing::Devices(PlaceByCriticalPath(chains, {chains, false}));
  EXPECT_EQ(std::accumulate(devices.begin(), devices.end(), 0), 3);
  const Observation mixed = MakeObservation(testing::MakeTwoOpsForTheAccelerator(), testing::MakeMixedCluster(1));
  EXPECT_THAT(testing::Devices(PlaceByCriticalPath(mixed, {mixed, true})), ElementsAre(1, 1));
}

// The estimate is the simulator's step where no transfer waits and groups run in the order of assignment.
TEST(PlaceByCriticalPathTest, TheEstimateOfAChainIsItsStepTime) {
  const Graph graph = testing::MakeChain(5, 7, 2000);
  const Cluster cluster = MakeCluster(2);
  const Observation seen = MakeObservation(graph, cluster);
  const AssignmentProblem problem(seen, false);
  PartialSchedule schedule(seen, problem);
  for (std::uint32_t group = 0; group < 5; ++group) {
    schedule.Consider(group);
    schedule.Assign(group, group % 2);
  }
  const CostTable costs = testing::MeasuredCosts(graph, cluster);
  const Simulator simulator(graph, cluster, costs);
  EXPECT_DOUBLE_EQ(MicrosFromDuration(schedule.end(4)), simulator.Run(schedule.placement()).step_time_micros);
}

TEST(PlaceByCriticalPathTest, EveryGroupIsWhereItIsAllowed) {
  Rng rng(5);
  for (int i = 0; i < 20; ++i) {
    const Graph graph = testing::RandomDag(rng, {.num_ops = 30, .kinds_differ = true, .memory = true});
    const Observation seen = MakeObservation(graph, testing::MakeMixedCluster(2));
    EXPECT_TRUE(testing::IsAllowed(seen, PlaceByCriticalPath(seen, {seen, true})));
    EXPECT_TRUE(testing::IsAllowed(seen, PlaceByCriticalPath(seen, {seen, false})));
  }
}

}  // namespace
}  // namespace emplace::agents
