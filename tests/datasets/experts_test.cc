#include "datasets/experts.h"

#include <gtest/gtest.h>

#include "sim/base/check.h"
#include "tests/testing/rank_graphs.h"
#include "tests/testing/training_graph.h"

namespace emplace::testing {
namespace {

TEST(ExpertsTest, CapacityIsRoundedUp) {
  EXPECT_EQ(datasets::ExpertCapacity({.experts = 4, .top_k = 1, .capacity_factor = 1}, 8), 2);
  EXPECT_EQ(datasets::ExpertCapacity({.experts = 4, .top_k = 2, .capacity_factor = 1.25}, 8), 5);
  EXPECT_EQ(datasets::ExpertCapacity({.experts = 3, .top_k = 1, .capacity_factor = 1}, 8), 3);
}

TEST(ExpertsTest, AMixtureTakesThePlaceOfEachMlp) {
  const Graph graph = TinyGpt({{"experts", "4"}, {"top_k", "2"}});
  CheckTrainingGraph(graph);
  const GraphTotals totals = TotalsOf(graph);
  // A block loses the MLP's weights and biases and gets 4 times as many, and a gate of 8 * 4.
  EXPECT_EQ(totals.parameters, kTinyGptParameters + std::int64_t{2} * (3 * (8 * 32 + 32 + 32 * 8 + 8) + 8 * 4));
  // For each of 8 tokens attention takes 4 d d + 2 * 4 d, the gate 4 d, words 12 d; 4 experts with room for 5 take
  // 8 d d for each.
  EXPECT_EQ(totals.forward_product_flop, 2.0 * (8 * (2 * (4 * 64 + 2 * 4 * 8 + 4 * 8) + 12 * 8) + 2 * 4 * 5 * 8 * 64));
  EXPECT_EQ(totals.backward_product_flop, 2 * totals.forward_product_flop);
  EXPECT_EQ(ShapeOf(graph, "block0/feed_forward/gate/route_tokens", 0), (std::vector<std::int64_t>{8, 2}));
  EXPECT_EQ(ShapeOf(graph, "block0/feed_forward/gate/route_tokens", 2), (std::vector<std::int64_t>{4, 5}));
  // The gate learns through the weights of results.
  EXPECT_TRUE(graph.FindOp("gradients/block0/feed_forward/gate/route_tokens/route_tokens_grad"));
  EXPECT_TRUE(graph.FindOp("update/block0/feed_forward/gate/weights/adam"));
}

TEST(ExpertsTest, OneExpertWithRoomForAllHasTheProductsOfTheMlp) {
  const Graph graph = TinyGpt({{"experts", "1"}, {"capacity_factor", "1"}});
  EXPECT_EQ(TotalsOf(graph).forward_product_flop, TotalsOf(TinyGpt()).forward_product_flop + 2.0 * 2 * 8 * 8);
}

TEST(ExpertsTest, ATokenHasNoMoreExpertsThanThereAre) {
  EXPECT_THROW(TinyGpt({{"experts", "1"}, {"top_k", "2"}}), InputError);
}

}  // namespace
}  // namespace emplace::testing
