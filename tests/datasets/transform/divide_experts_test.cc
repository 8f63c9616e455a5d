#include <gmock/gmock.h>

#include "tests/testing/rank_graphs.h"

namespace emplace::testing {
namespace {

using Dims = std::vector<std::int64_t>;

// 4 experts of width 8 and 32, 2 for each of 8 tokens, with room for ceil(1.25 * 2 * 8 / 4) = 5.
Graph WithExperts() { return TinyGpt({{"experts", "4"}, {"top_k", "2"}}); }
constexpr std::int64_t kExpertParameters = std::int64_t{2} * 4 * (8 * 32 + 32 + 32 * 8 + 8);
// Without the MLP's 2 * (8 * 32 + 32 + 32 * 8 + 8), with gates of 8 * 4.
constexpr std::int64_t kOtherParameters =
    kTinyGptParameters - std::int64_t{2} * (8 * 32 + 32 + 32 * 8 + 8) + std::int64_t{2} * 8 * 4;

TEST(DivideExpertsTest, TokensOfAllRanksComeToTheRankOfTheirExpert) {
  const Graph whole = WithExperts();
  const Graph graph = datasets::Transform(whole, {.expert_parallel = 2});
  CheckRanks(graph, 2);
  EXPECT_EQ(ShapeOf(graph, "t1/block0/feed_forward/dispatch/gather"), (Dims{4, 5, 8}));
  EXPECT_EQ(ShapeOf(graph, "t1/block0/feed_forward/dispatch/gather/all_to_all"), (Dims{2, 10, 8}));
  EXPECT_EQ(ShapeOf(graph, "t1/block0/feed_forward/experts/inner/weights"), (Dims{2, 8, 32}));
  EXPECT_EQ(ShapeOf(graph, "t1/block0/feed_forward/experts/inner/gelu"), (Dims{2, 10, 32}));
  EXPECT_EQ(ShapeOf(graph, "t1/block0/feed_forward/experts/outer/add/all_to_all"), (Dims{4, 5, 8}));
  EXPECT_EQ(ShapeOf(graph, "t1/gradients/block0/feed_forward/experts/inner/batch_matmul/batch_matmul_grad_b"),
            (Dims{2, 8, 32}));
  // A rank has as many products as before: half of the experts, and twice the tokens of each.
  EXPECT_EQ(SumFlop(graph, Both(IsProduct, OfRank("t0/"))), SumFlop(whole, IsProduct));
}

TEST(DivideExpertsTest, ABlockExchangesTokensTwiceForwardAndTwiceBackward) {
  const Graph graph = datasets::Transform(WithExperts(), {.expert_parallel = 2});
  std::size_t exchanges = 0;
  for (const auto& [group, members] : Collectives(graph)) {
    if (graph.op(members[0]).kind != "all_to_all") continue;
    ++exchanges;
    EXPECT_EQ(InputBytes(graph, members[0]), 4 * 5 * 8 * 4) << group;  // experts * capacity * width * 4 bytes
  }
  EXPECT_EQ(exchanges, 2U * 4);
}

TEST(DivideExpertsTest, WeightsThatAllRanksHaveAreAddedUpOverAll) {
  const Graph alone = datasets::Transform(WithExperts(), {.expert_parallel = 2});
  EXPECT_EQ(SumPersistent(alone, Both(OfKind("variable"), OfRank("t0/"))),
            4 * (kOtherParameters + kExpertParameters / 2));
  EXPECT_EQ(SumPersistent(alone, Both(OfKind("adam"), OfRank("t0/"))), 8 * (kOtherParameters + kExpertParameters / 2));
  EXPECT_EQ(GroupBytes(alone, "data/bucket0/all_reduce"), 4 * kOtherParameters);
  EXPECT_FALSE(Collectives(alone).contains("data/t0/experts/bucket0/all_reduce"));
  // The norms of experts differ between the ranks, those of the others count once.
  EXPECT_EQ(GroupBytes(alone, "update/global_norm_scale/all_reduce"), 4);
  EXPECT_FALSE(alone.FindOp("t1/update/block0/norm1/gamma/l2_loss"));

  const Graph replicas = datasets::Transform(WithExperts(), {.expert_parallel = 2, .data_parallel = 2});
  CheckRanks(replicas, 4);
  const auto groups = Collectives(replicas);
  EXPECT_EQ(groups.at("data/bucket0/all_reduce").size(), 4U);
  EXPECT_EQ(groups.at("data/t1/experts/bucket0/all_reduce").size(), 2U);
  EXPECT_EQ(GroupBytes(replicas, "data/t1/experts/bucket0/all_reduce"), 4 * kExpertParameters / 2);

  const Graph sharded =
      datasets::Transform(WithExperts(), {.expert_parallel = 2, .data_parallel = 2, .shard_optimizer = true});
  CheckRanks(sharded, 4);
  EXPECT_EQ(SumPersistent(sharded, Both(OfKind("adam"), OfRank("r1/t1/"))),
            8 * (kOtherParameters / 4 + kExpertParameters / 2 / 2));
}

TEST(DivideExpertsTest, ExpertsThatRunAgainExchangeAgain) {
  const Graph graph = datasets::Transform(WithExperts(), {.recompute = "full", .expert_parallel = 2});
  CheckRanks(graph, 2);
  EXPECT_EQ(CountOps(graph, Both(OfKind("all_to_all"), OfRank("t0/"))), 2U * 6);
}

TEST(DivideExpertsTest, WhatCannotBeDividedIsRefused) {
  EXPECT_EQ(TransformRefusal(WithExperts(), {.expert_parallel = 3}),
            "expert_parallel: 3 does not divide experts, of which there are 4");
  EXPECT_EQ(TransformRefusal(TinyGpt(), {.expert_parallel = 2}),
            "expert_parallel: the graph has no experts (models gpt and llama with experts=N)");
}

}  // namespace
}  // namespace emplace::testing
