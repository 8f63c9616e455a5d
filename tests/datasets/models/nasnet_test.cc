#include <gtest/gtest.h>

#include "tests/testing/training_graph.h"

namespace emplace::testing {
namespace {

TEST(NasnetTest, HasThePublishedParametersMultiplyAddsAndOps) {
  const Graph graph = datasets::MakeModel("nasnet", {{"batch", "1"}});
  const GraphTotals totals = TotalsOf(graph);
  // Zoph et al. 2018, table 2: 88.9 M parameters, 23.8 G multiply-adds.
  EXPECT_NEAR(totals.parameters, 88.9e6, 0.889e6);
  EXPECT_NEAR(totals.forward_product_flop / 2, 23.8e9, 0.714e9);
  // Placeto's appendix, A.2: 12,942 ops, 25 % either way.
  EXPECT_GE(graph.num_ops(), 9706U);
  EXPECT_LE(graph.num_ops(), 16178U);
}

TEST(NasnetTest, CellsHaveTheSizesAndChannelsOfTheName) {
  const Graph graph = datasets::MakeModel("nasnet", {{"batch", "1"}});
  const auto shape_of = [&graph](const std::string& op) {
    const auto shape = graph.tensor(graph.first_output(graph.FindOp(op).value())).shape;
    return std::vector<std::int64_t>(shape.begin(), shape.end());
  };
  // 6 @ 4032: six cells a stack, 4032 channels at the end. 331 -> 165 -> 83 -> 42 -> 21 -> 11.
  EXPECT_EQ(shape_of("stack0_cell5/concat"), (std::vector<std::int64_t>{1, 6L * 168, 42, 42}));
  EXPECT_EQ(shape_of("stack1_cell5/concat"), (std::vector<std::int64_t>{1, 6L * 336, 21, 21}));
  EXPECT_EQ(shape_of("stack2_cell5/concat"), (std::vector<std::int64_t>{1, 4032, 11, 11}));
}

}  // namespace
}  // namespace emplace::testing
