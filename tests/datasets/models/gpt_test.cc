#include <gtest/gtest.h>

#include "sim/base/check.h"
#include "tests/testing/training_graph.h"

namespace emplace::testing {
namespace {

std::int64_t PersistentBytes(const Graph& graph, std::string_view kind) {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const Op& op = graph.op(MakeId<OpId>(i));
    if (op.kind == kind) bytes += op.persistent.count;
  }
  return bytes;
}

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

TEST(GptTest, MixedPrecisionTakesSixteenBytesForEachParameter) {
  const OptionMap tiny = {{"layers", "2"},   {"d_model", "8"}, {"heads", "2"},
                          {"sequence", "4"}, {"batch", "2"},   {"vocabulary", "11"}};
  OptionMap mixed = tiny;
  mixed.emplace("precision", "bf16");
  const Graph whole = datasets::MakeModel("gpt", tiny);
  const Graph graph = datasets::MakeModel("gpt", mixed);
  CheckTrainingGraph(graph);
  EXPECT_EQ(graph.num_ops(), whole.num_ops());
  // Table 11 * 8, positions 4 * 8; a block 12 * 64 + 13 * 8; the last norm 2 * 8.
  const std::int64_t parameters = 88 + 32 + 2 * (768 + 104) + 16;
  EXPECT_EQ(PersistentBytes(graph, "variable"), 2 * parameters);
  EXPECT_EQ(PersistentBytes(graph, "adam"), 12 * parameters);
  EXPECT_EQ(PersistentBytes(whole, "variable"), 4 * parameters);
  EXPECT_EQ(PersistentBytes(whole, "adam"), 8 * parameters);
  std::int64_t gradients = 0;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const OpId id = MakeId<OpId>(i);
    if (graph.op(id).kind == "adam") gradients += graph.tensor(graph.inputs(id)[1]).size.count;
  }
  EXPECT_EQ(gradients, 2 * parameters);
  // Norms, softmax and dropout read and write bf16; means, deviations, losses and the factor of clipping are f32.
  const auto type = [&graph](const char* name, std::size_t output) {
    return graph.tensor(MakeId<TensorId>(Index(graph.first_output(*graph.FindOp(name))) + output)).dtype;
  };
  EXPECT_EQ(type("block0/norm1/layer_norm", 0), DType::kBf16);
  EXPECT_EQ(type("block0/norm1/layer_norm", 1), DType::kF32);
  EXPECT_EQ(type("block0/attention/weights", 0), DType::kBf16);
  EXPECT_EQ(type("block0/attention/dropout", 0), DType::kBf16);
  EXPECT_EQ(type("projection/logits", 0), DType::kBf16);
  EXPECT_EQ(type("loss/softmax_cross_entropy", 0), DType::kF32);
  EXPECT_EQ(type("update/embedding/table/clip", 0), DType::kBf16);
}

TEST(GptTest, HeadsMustDivideTheWidth) { EXPECT_THROW(datasets::MakeModel("gpt", {{"heads", "7"}}), InputError); }

}  // namespace
}  // namespace emplace::testing
