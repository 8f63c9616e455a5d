#include "agents/heuristics/baechi.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "agents/heuristics/list_scheduler.h"
#include "sim/base/check.h"
#include "tests/testing/graphs.h"
#include "tests/testing/observations.h"

namespace emplace {
namespace {

using ::emplace::testing::Devices;
using ::emplace::testing::IsAllowed;
using ::emplace::testing::MakeObservation;
using ::emplace::testing::MakeOp;

// A chain of four ops of 10, 20, 30 and 40 bytes: as outputs, temporary and persistent bytes.
Graph FourOps() {
  GraphBuilder builder("four");
  builder.Add(MakeOp("a", 1, {}, {10}));
  builder.Add(MakeOp("b", 1, {"a"}, {20}));
  OpSpec c = MakeOp("c", 1, {"b"});
  c.temp = Bytes{30};
  builder.Add(c);
  OpSpec d = MakeOp("d", 1, {"c"});
  d.persistent = Bytes{40};
  builder.Add(d);
  return builder.Build();
}

Cluster TwoDevicesOf(std::int64_t bytes) {
  return testing::MakeCluster(2, {.bandwidth_gb_per_s = 1, .latency_micros = 0, .gap_micros = 0}, 0, Bytes{bytes});
}

TEST(MTopoTest, FillsUpToTheShareAndTheLargestGroup) {
  // Cap: floor(100 / 2) + 40 = 90. Device 0 takes 10 + 20 + 30 = 60; 40 more would be 100.
  EXPECT_EQ(Devices(agents::PlaceByMTopo(MakeObservation(FourOps(), TwoDevicesOf(1)), {})),
            (std::vector<int>{0, 0, 0, 1}));
  // Four devices: floor(100 / 4) + 40 = 65. 60 fit, 40 more do not.
  EXPECT_EQ(Devices(agents::PlaceByMTopo(MakeObservation(FourOps(), testing::MakeCluster(4)), {})),
            (std::vector<int>{0, 0, 0, 1}));
}

TEST(MTopoTest, FillsUpToTheCapacityOtherwise) {
  // 10 + 20 fit in 50, 30 more do not; the last device takes 30 and 40 although they are too much for it.
  EXPECT_EQ(Devices(agents::PlaceByMTopo(MakeObservation(FourOps(), TwoDevicesOf(50)), {.uniform = false})),
            (std::vector<int>{0, 0, 1, 1}));
  // A device that is too small for the first group is never used again.
  EXPECT_EQ(Devices(agents::PlaceByMTopo(MakeObservation(FourOps(), TwoDevicesOf(5)), {.uniform = false})),
            (std::vector<int>{1, 1, 1, 1}));
}

TEST(MTopoTest, LeavesGroupsThatRunElsewhereOutOfTheCount) {
  GraphBuilder builder("mixed");
  OpSpec cpu = MakeOp("a", 1, {}, {1000});
  cpu.time_micros.reset();
  cpu.kind_times = {{"test-cpu", 1}};
  builder.Add(cpu);
  builder.Add(MakeOp("b", 1, {"a"}, {10}));
  const agents::Observation observation = MakeObservation(builder.Build(), testing::MakeMixedCluster(2, Bytes{10}));
  EXPECT_EQ(Devices(agents::PlaceByMTopo(observation, {.uniform = false})), (std::vector<int>{0, 1}));
}

TEST(MTopoTest, PlacesRandomGraphsWhereAllowed) {
  Rng rng(5);
  for (int i = 0; i < 50; ++i) {
    const Graph graph = testing::RandomDag(rng, {.num_ops = 1 + rng.Below(60), .kinds_differ = true, .memory = true});
    const agents::Observation observation =
        MakeObservation(graph, testing::MakeMixedCluster(1 + rng.Below(8), Bytes{20000}));
    EXPECT_TRUE(IsAllowed(observation, agents::PlaceByMTopo(observation, {.uniform = i % 2 == 0})));
  }
  const agents::Observation empty = MakeObservation(Graph(), testing::TwoDevices());
  EXPECT_EQ(agents::PlaceByMTopo(empty, {}).num_ops(), 0U);
}

TEST(MTopoTest, ReadsItsOptions) {
  // The expected placements of the two tests above.
  EXPECT_EQ(Devices(testing::FirstProposal(agents::MakeMTopoAgent, {}, FourOps(), TwoDevicesOf(50))),
            (std::vector<int>{0, 0, 0, 1}));
  EXPECT_EQ(
      Devices(testing::FirstProposal(agents::MakeMTopoAgent, {{"uniform", "false"}}, FourOps(), TwoDevicesOf(50))),
      (std::vector<int>{0, 0, 1, 1}));
  EXPECT_THROW(testing::FirstProposal(agents::MakeMTopoAgent, {{"cap", "1"}}, FourOps(), TwoDevicesOf(50)), InputError);
}

// Three independent ops that run anywhere in 1 µs. Devices: cpu:0, gpu:0.
agents::Observation ThreeOps() {
  GraphBuilder builder("three");
  for (const char* name : {"a", "b", "c"}) builder.Add(testing::MakeOp(name, 1));
  return MakeObservation(builder.Build(), testing::MakeMixedCluster(1));
}

TEST(MEtfTest, KeepsToAccelerators) {
  EXPECT_EQ(Devices(agents::PlaceByMEtf(ThreeOps(), {})), (std::vector<int>{1, 1, 1}));
}

TEST(MEtfTest, UsesCpusIfAsked) {
  // At 0 a starts on cpu:0 and b on gpu:0; both are idle at 1, and c takes the first.
  EXPECT_EQ(Devices(agents::PlaceByMEtf(ThreeOps(), {.use_cpus = true})), (std::vector<int>{0, 1, 0}));
}

TEST(MEtfTest, PlacesManyOpsWithinSeconds) {
  // 20,000 sources that are all ready at once, on eight devices: a scan over pairs would look at 1.6e9 of them.
  GraphBuilder builder("wide");
  for (int i = 0; i < 20000; ++i) {
    builder.Add(testing::MakeOp("s" + std::to_string(i), 1, {}, {1000}));
    builder.Add(testing::MakeOp("t" + std::to_string(i), 1, {"s" + std::to_string(i)}));
  }
  const agents::Observation observation = MakeObservation(builder.Build(), testing::MakeCluster(8));
  const Placement placement = agents::PlaceByMEtf(observation, {});
  // Each pair can stay on one device without a transfer, so the load is even.
  std::vector<int> count(8);
  for (const int device : Devices(placement)) ++count[static_cast<std::size_t>(device)];
  EXPECT_EQ(count, std::vector<int>(8, 5000));
}

TEST(MEtfTest, ReadsItsOptions) {
  const agents::Observation problem = ThreeOps();
  EXPECT_EQ(testing::FirstProposal(agents::MakeMEtfAgent, {}, problem.graph, problem.cluster),
            agents::PlaceByMEtf(problem, {}));
  EXPECT_EQ(testing::FirstProposal(agents::MakeMEtfAgent, {{"use_cpus", "true"}}, problem.graph, problem.cluster),
            agents::PlaceByMEtf(problem, {.use_cpus = true}));
  EXPECT_THROW(testing::FirstProposal(agents::MakeMEtfAgent, {{"cpus", "true"}}, problem.graph, problem.cluster),
               InputError);
}

agents::CommunicationPlan Plan(const Graph& graph) {
  const agents::Observation observation = MakeObservation(graph, testing::TwoDevices());
  return agents::PlanCommunication(observation, observation.accelerators);
}

// a (1 µs) feeds b over 5 µs and c over 3 µs; c takes 1 µs.
Graph Fork(double b_micros) {
  GraphBuilder builder("fork");
  builder.Add(MakeOp("a", 1, {}, {5000, 3000}));
  builder.Add(MakeOp("b", b_micros, {"a:0"}));
  builder.Add(MakeOp("c", 1, {"a:1"}));
  return builder.Build();
}

TEST(PlanCommunicationTest, KeepsAChainTogether) {
  // Every op has at most one producer and one consumer: no transfers, 3 * 2 µs.
  const agents::CommunicationPlan plan = Plan(testing::MakeChain(3, 2, 5000));
  EXPECT_NEAR(plan.makespan_micros, 6, 1e-6);
  ASSERT_EQ(plan.far.size(), 2U);
  EXPECT_NEAR(plan.far[0], 0, 1e-6);
  EXPECT_NEAR(plan.far[1], 0, 1e-6);
  EXPECT_EQ(agents::FavouriteChildren(plan, 3, 0.1), (std::vector<std::size_t>{1, 2, agents::kNoFavourite}));
}

TEST(PlanCommunicationTest, SplitsAForkWhereBothEndsAreEquallyLate) {
  // w = 2 + max(5 x, 3 y) with x + y >= 1: minimal where 5 x = 3 (1 - x), x = 3/8; w = 2 + 15/8.
  const agents::CommunicationPlan plan = Plan(Fork(1));
  EXPECT_NEAR(plan.makespan_micros, 3.875, 1e-6);
  ASSERT_EQ(plan.far.size(), 2U);
  EXPECT_NEAR(plan.far[0], 0.375, 1e-6);
  EXPECT_NEAR(plan.far[1], 0.625, 1e-6);
  // 0.375 is rounded to a favourite only with a threshold above it.
  EXPECT_EQ(agents::FavouriteChildren(plan, 3, 0.1), std::vector<std::size_t>(3, agents::kNoFavourite));
  EXPECT_EQ(agents::FavouriteChildren(plan, 3, 0.5)[0], 1U);
}

TEST(PlanCommunicationTest, FollowsTheLongerBranch) {
  // b takes 10 µs: with x_ab = 0 it ends at 11, and c, which then has x = 1, at 1 + 3 + 1 = 5.
  const agents::CommunicationPlan plan = Plan(Fork(10));
  EXPECT_NEAR(plan.makespan_micros, 11, 1e-6);
  EXPECT_NEAR(plan.far[0], 0, 1e-6);
  EXPECT_NEAR(plan.far[1], 1, 1e-6);
  EXPECT_EQ(agents::FavouriteChildren(plan, 3, 0.1),
            (std::vector<std::size_t>{1, agents::kNoFavourite, agents::kNoFavourite}));
}

TEST(PlanCommunicationTest, LetsAJoinFollowOneProducer) {
  // a takes 1 µs and b 9 µs, both 4 µs away from c (1 µs): following b, c starts at max(9, 1 + 4) = 9 and ends at 10.
  GraphBuilder builder("join");
  builder.Add(MakeOp("a", 1, {}, {4000}));
  builder.Add(MakeOp("b", 9, {}, {4000}));
  builder.Add(MakeOp("c", 1, {"a", "b"}));
  const agents::CommunicationPlan plan = Plan(builder.Build());
  EXPECT_NEAR(plan.makespan_micros, 10, 1e-6);
  EXPECT_NEAR(plan.far[1], 0, 1e-6);
  EXPECT_EQ(agents::FavouriteChildren(plan, 3, 0.1)[1], 2U);
  EXPECT_EQ(agents::FavouriteChildren(plan, 3, 0.1)[0], agents::kNoFavourite);
}

TEST(PlanCommunicationTest, TakesGraphsWithoutOpsEdgesOrTimes) {
  EXPECT_TRUE(Plan(Graph()).far.empty());
  EXPECT_NEAR(Plan(testing::MakeChain(1, 7, 0)).makespan_micros, 7, 1e-6);
  EXPECT_NEAR(Plan(testing::MakeForkJoin(3, 0, 0)).makespan_micros, 0, 1e-6);
}

TEST(PlanCommunicationTest, SolutionsOfRandomGraphsAreFeasible) {
  Rng rng(5);
  for (int i = 0; i < 20; ++i) {
    const Graph graph = testing::RandomDag(rng, {.num_ops = 80});
    const agents::CommunicationPlan plan = Plan(graph);
    std::vector<double> outputs(graph.num_ops());
    std::vector<double> inputs(graph.num_ops());
    for (std::size_t e = 0; e < plan.edges.size(); ++e) {
      EXPECT_GE(plan.far[e], -1e-6);
      EXPECT_LE(plan.far[e], 1 + 1e-6);
      outputs[plan.edges[e].from] += 1 - plan.far[e];
      inputs[plan.edges[e].to] += 1 - plan.far[e];
    }
    for (std::size_t op = 0; op < graph.num_ops(); ++op) {
      EXPECT_LE(outputs[op], 1 + 1e-6);
      EXPECT_LE(inputs[op], 1 + 1e-6);
    }
  }
}

TEST(FavouriteChildrenTest, LetTheLastOfSeveralEdgesWin) {
  // 0-2 makes 2 the child of 0, 1-2 makes it the child of 1 instead, and 1-3 replaces it by 3.
  const agents::CommunicationPlan plan = {
      .makespan_micros = 0, .far = {0, 0, 0}, .edges = {{0, 2, 0}, {1, 2, 0}, {1, 3, 0}}};
  EXPECT_EQ(agents::FavouriteChildren(plan, 4, 0.1),
            (std::vector<std::size_t>{agents::kNoFavourite, 3, agents::kNoFavourite, agents::kNoFavourite}));
}

TEST(MSctTest, LetsTheCriticalChildFollowItsProducer) {
  // a (2 µs) feeds f over 100 µs, b (3 µs) feeds f over 1 µs, and x and y (3 µs each) over 0.5 µs; g (40 µs) needs f.
  // The linear program minimises max(2 + 100 x_af, 3 + x_bf) with x_af + x_bf = 1: x_af = 2/101, below 0.1, so f is a's
  // favourite. Device 0, where a ran, waits for f from 3 to 4, so y, whose input arrives there at 3.5, goes to device
  // 1. m-ETF starts y at 3.5 on device 0.
  GraphBuilder builder("tempting");
  builder.Add(MakeOp("a", 2, {}, {100000}));
  builder.Add(MakeOp("b", 3, {}, {1000, 500}));
  builder.Add(MakeOp("f", 1, {"a", "b:0"}, {40000}));
  builder.Add(MakeOp("g", 40, {"f"}));
  builder.Add(MakeOp("x", 3, {"b:1"}));
  builder.Add(MakeOp("y", 3, {"b:1"}));
  const agents::Observation observation = MakeObservation(builder.Build(), testing::TwoDevices());
  EXPECT_EQ(Devices(agents::PlaceByMSct(observation, {})), (std::vector<int>{0, 1, 0, 0, 1, 1}));
  EXPECT_EQ(Devices(agents::PlaceByMEtf(observation, {})), (std::vector<int>{0, 1, 0, 0, 1, 0}));
}

TEST(MSctTest, RefusesMoreGroupsThanItsProgramTakes) {
  GraphBuilder builder("large");
  for (std::size_t i = 0; i <= agents::kMaxGroupsOfMSct; ++i) builder.Add(MakeOp("op" + std::to_string(i), 1));
  const agents::Observation observation = MakeObservation(builder.Build(), testing::TwoDevices());
  try {
    agents::PlaceByMSct(observation, {});
    FAIL() << "no error";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "m_sct: its linear program takes up to 20000 groups, and these are 20001; use the grouping "
                 "merge_and_colocate");
  }
}

TEST(MSctTest, PlacesRandomGraphsWhereAllowedAndTheSameEachTime) {
  Rng rng(5);
  for (int i = 0; i < 30; ++i) {
    const Graph graph = testing::RandomDag(rng, {.num_ops = 1 + rng.Below(60), .kinds_differ = true, .memory = true});
    const agents::Observation observation =
        MakeObservation(graph, testing::MakeMixedCluster(1 + rng.Below(4), Bytes{30000}));
    const agents::MSctOptions options = {.threshold = 0.5, .use_cpus = i % 2 == 0};
    const Placement placement = agents::PlaceByMSct(observation, options);
    EXPECT_TRUE(IsAllowed(observation, placement));
    EXPECT_EQ(placement, agents::PlaceByMSct(observation, options));
  }
}

TEST(MSctTest, WantsGroupsWhereItsProgramWouldBeTooLarge) {
  const agents::AgentEntry& entry = agents::FindAgent("m_sct");
  EXPECT_EQ(agents::DefaultGrouping(entry, agents::kMaxGroupsOfMSct), "identity");
  EXPECT_EQ(agents::DefaultGrouping(entry, agents::kMaxGroupsOfMSct + 1), "merge_and_colocate");
  EXPECT_EQ(agents::DefaultGrouping(agents::FindAgent("m_etf"), agents::kMaxGroupsOfMSct + 1), "identity");
}

TEST(MSctTest, ReadsItsOptions) {
  // A chain stays on the device of its first op: cpu:0 if CPUs are used, else gpu:0.
  const Graph chain = testing::MakeChain(3, 1, 1000);
  EXPECT_EQ(Devices(testing::FirstProposal(agents::MakeMSctAgent, {{"threshold", "0.5"}, {"use_cpus", "true"}}, chain,
                                           testing::MakeMixedCluster(1))),
            (std::vector<int>{0, 0, 0}));
  EXPECT_EQ(Devices(testing::FirstProposal(agents::MakeMSctAgent, {}, chain, testing::MakeMixedCluster(1))),
            (std::vector<int>{1, 1, 1}));
  EXPECT_THROW(testing::FirstProposal(agents::MakeMSctAgent, {{"threshold", "2"}}, chain, testing::TwoDevices()),
               InputError);
}

}  // namespace
}  // namespace emplace
