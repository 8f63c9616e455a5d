#include <gtest/gtest.h>

#include "sim/base/check.h"
#include "tests/testing/training_graph.h"

namespace emplace::testing {
namespace {

TEST(GptTest, HasThePublishedParameters) {
  // GPT-2's smallest model, as published: 124,439,808.
  EXPECT_EQ(TotalsOf(datasets::MakeModel("gpt", {{"batch", "1"}})).parameters, 124439808);
  // Its largest, Radford et al. 2019, table 2: 1542 M (the published model has 1,557.6 M).
  const GraphTotals largest =
      TotalsOf(datasets::MakeModel("gpt", {{"layers", "48"}, {"d_model", "1600"}, {"heads", "25"}, {"batch", "1"}}));
  EXPECT_EQ(largest.parameters, 1557611200);
}

TEST(GptTest, InputAndOutputShareTheTable) {
  const Graph graph = datasets::MakeModel(
      "gpt",
      {{"layers", "1"}, {"d_model", "8"}, {"heads", "2"}, {"sequence", "4"}, {"batch", "2"}, {"vocabulary", "11"}});
  CheckTrainingGraph(graph);
  // The gradient of the product is dense; the gradient of the lookup is added to it.
  const OpId sum = graph.FindOp("gradients/embedding/table/scatter_add").value();
  EXPECT_EQ(graph.op(graph.tensor(graph.inputs(sum)[0]).producer).kind, "matmul_grad_b");
  EXPECT_EQ(graph.op(graph.tensor(graph.inputs(sum)[1]).producer).kind, "gather_grad");
}

TEST(GptTest, ForwardProductsAreThoseWrittenOut) {
  // d = 8, batch 2, 4 tokens, vocabulary 11. For each token a block takes 12 d d, and scores and context 2 * 4 d; words
  // take 11 d.
  const GraphTotals totals = TotalsOf(datasets::MakeModel(
      "gpt",
      {{"layers", "3"}, {"d_model", "8"}, {"heads", "2"}, {"sequence", "4"}, {"batch", "2"}, {"vocabulary", "11"}}));
  EXPECT_EQ(totals.forward_product_flop, 2.0 * 2 * 4 * (3 * (12 * 64 + 2 * 4 * 8) + 11 * 8));
  EXPECT_EQ(totals.backward_product_flop, 2 * totals.forward_product_flop);
}

TEST(GptTest, HeadsMustDivideTheWidth) { EXPECT_THROW(datasets::MakeModel("gpt", {{"heads", "7"}}), InputError); }

}  // namespace
}  // namespace emplace::testing
