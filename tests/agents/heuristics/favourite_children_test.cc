#include "agents/heuristics/favourite_children.h"

#include <gtest/gtest.h>

#include <vector>

#include "agents/heuristics/list_scheduler.h"
#include "tests/testing/graphs.h"
#include "tests/testing/observations.h"

namespace emplace {
namespace {

using testing::MakeObservation;
using testing::MakeOp;

CommunicationPlan Plan(const Graph& graph) {
  const Observation observation = MakeObservation(graph, testing::TwoDevices());
  return PlanCommunication(observation, observation.accelerators);
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
  // Every op has one producer and one consumer at most: no transfer at all, 3 * 2 µs.
  const CommunicationPlan plan = Plan(testing::MakeChain(3, 2, 5000));
  EXPECT_NEAR(plan.makespan_micros, 6, 1e-6);
  ASSERT_EQ(plan.far.size(), 2U);
  EXPECT_NEAR(plan.far[0], 0, 1e-6);
  EXPECT_NEAR(plan.far[1], 0, 1e-6);
  EXPECT_EQ(FavouriteChildren(plan, 3, 0.1), (std::vector<std::size_t>{1, 2, kNoFavourite}));
}

TEST(PlanCommunicationTest, SplitsAForkWhereBothEndsAreEquallyLate) {
  // w = 2 + max(5 x, 3 y) with x + y >= 1: least where 5 x = 3 (1 - x), x = 3/8; w = 2 + 15/8.
  const CommunicationPlan plan = Plan(Fork(1));
  EXPECT_NEAR(plan.makespan_micros, 3.875, 1e-6);
  ASSERT_EQ(plan.far.size(), 2U);
  EXPECT_NEAR(plan.far[0], 0.375, 1e-6);
  EXPECT_NEAR(plan.far[1], 0.625, 1e-6);
  // 0.375 rounds to a favourite only under a threshold above it.
  EXPECT_EQ(FavouriteChildren(plan, 3, 0.1), std::vector<std::size_t>(3, kNoFavourite));
  EXPECT_EQ(FavouriteChildren(plan, 3, 0.5)[0], 1U);
}

TEST(PlanCommunicationTest, FollowsTheLongerBranch) {
  // b takes 10 µs: with x_ab = 0 it ends at 11, and c, which then has x = 1, at 1 + 3 + 1 = 5.
  const CommunicationPlan plan = Plan(Fork(10));
  EXPECT_NEAR(plan.makespan_micros, 11, 1e-6);
  EXPECT_NEAR(plan.far[0], 0, 1e-6);
  EXPECT_NEAR(plan.far[1], 1, 1e-6);
  EXPECT_EQ(FavouriteChildren(plan, 3, 0.1), (std::vector<std::size_t>{1, kNoFavourite, kNoFavourite}));
}

TEST(PlanCommunicationTest, LetsAJoinFollowOneProducer) {
  // a takes 1 µs and b 9 µs, both 4 µs away from c (1 µs): following b, c starts at max(9, 1 + 4) = 9 and ends at 10.
  GraphBuilder builder("join");
  builder.Add(MakeOp("a", 1, {}, {4000}));
  builder.Add(MakeOp("b", 9, {}, {4000}));
  builder.Add(MakeOp("c", 1, {"a", "b"}));
  const CommunicationPlan plan = Plan(builder.Build());
  EXPECT_NEAR(plan.makespan_micros, 10, 1e-6);
  EXPECT_NEAR(plan.far[1], 0, 1e-6);
  EXPECT_EQ(FavouriteChildren(plan, 3, 0.1)[1], 2U);
  EXPECT_EQ(FavouriteChildren(plan, 3, 0.1)[0], kNoFavourite);
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
    const CommunicationPlan plan = Plan(graph);
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
  // 0-2 and 1-2 claim child 2, then 1-3 takes producer 1 away from it: 0 has lost its child to 1, 1 follows with 3.
  const CommunicationPlan plan = {.makespan_micros = 0, .far = {0, 0, 0}, .edges = {{0, 2, 0}, {1, 2, 0}, {1, 3, 0}}};
  EXPECT_EQ(FavouriteChildren(plan, 4, 0.1), (std::vector<std::size_t>{kNoFavourite, 3, kNoFavourite, kNoFavourite}));
}

}  // namespace
}  // namespace emplace
