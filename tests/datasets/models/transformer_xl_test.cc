#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/check.h"
#include "tests/testing/training_graph.h"

namespace emplace::testing {
namespace transformer_xl_test {

const OptionMap kSmall = {{"layers", "1"},  {"batch", "2"}, {"sequence", "12"},
                          {"segment", "4"}, {"heads", "2"}, {"head_width", "3"},
                          {"d_model", "5"}, {"ff", "7"},    {"vocabulary", "11"}};

TEST(TransformerXlTest, HasThePublishedParameters) {
  // Dai et al. 2019, table 2 (enwik8, 12 layers): 41 M. Sizes as in its authors' published script.
  const GraphTotals totals = TotalsOf(datasets::MakeModel("transformer_xl", {{"layers", "12"},
                                                                             {"d_model", "512"},
                                                                             {"heads", "8"},
                                                                             {"head_width", "64"},
                                                                             {"ff", "2048"},
                                                                             {"vocabulary", "204"}}));
  EXPECT_NEAR(totals.parameters, 41e6, 0.41e6);
}

TEST(TransformerXlTest, HasThePublishedNumberOfOps) {
  // Zhou et al. (SGDP), appendix A: 2,618 with 2 layers, 25 % either way.
  const std::size_t ops = datasets::MakeModel("transformer_xl").num_ops();
  EXPECT_GE(ops, 1964U);
  EXPECT_LE(ops, 3272U);
}

TEST(TransformerXlTest, ASegmentLooksBackOnTheOneBeforeWithoutGradient) {
  const Graph graph = datasets::MakeModel("transformer_xl", kSmall);
  CheckTrainingGraph(graph);
  const auto producer = [&graph](const std::string& op, std::size_t input) {
    return std::string(graph.op(graph.tensor(graph.inputs(graph.FindOp(op).value())[input]).producer).name);
  };
  EXPECT_EQ(producer("layer0/segment0/attention/stop_gradient", 0), "layer0/memory");
  EXPECT_EQ(producer("layer0/segment1/attention/stop_gradient", 0), "embedding/segment0/dropout");
  EXPECT_EQ(producer("layer0/segment2/attention/stop_gradient", 0), "embedding/segment1/dropout");
  // The words of segment 0 get a gradient only from their own segment: from their readers (concat, residual), and from
  // no op of segment 1.
  const OpId sum = graph.FindOp("gradients/embedding/segment0/dropout/add_n").value();
  for (const TensorId input : graph.inputs(sum)) {
    EXPECT_NE(graph.op(graph.tensor(input).producer).name.find("segment0"), std::string_view::npos);
  }
}

TEST(TransformerXlTest, ForwardProductsAreThoseWrittenOut) {
  // 3 segments of 4 queries over 8 keys, batch 2, attention 2 x 3 wide. Multiply-adds of a segment: queries, keys and
  // values 2*8 * 5*18; positions 8 * 5*6; both scores and the context 3 * 2 heads * 2*4*8*3; output 2*4 * 6*5; the
  // feed-forward part 2*4 * 2*5*7; words 2*4 * 5*11.
  const double segment = 16 * 90 + 8 * 30 + 3 * 2 * 192 + 8 * 30 + 8 * 70 + 8 * 55;
  EXPECT_EQ(TotalsOf(datasets::MakeModel("transformer_xl", kSmall)).forward_product_flop, 2 * 3 * segment);
}

TEST(TransformerXlTest, HeadsAtOnceHaveTheProductsOfSeparateOnes) {
  OptionMap options = kSmall;
  options["head_products"] = "batched";
  const Graph graph = datasets::MakeModel("transformer_xl", options);
  CheckTrainingGraph(graph);
  const GraphTotals totals = TotalsOf(graph);
  const GraphTotals separate = TotalsOf(datasets::MakeModel("transformer_xl", kSmall));
  EXPECT_EQ(totals.forward_product_flop, separate.forward_product_flop);
  EXPECT_EQ(totals.backward_product_flop, separate.backward_product_flop);
  EXPECT_EQ(totals.parameters, separate.parameters);
  EXPECT_EQ(totals.kinds.at("batch_matmul"), 3U * 3) << "two scores and a context for each of three segments";
  const auto shape = graph.tensor(graph.first_output(*graph.FindOp("layer0/segment0/attention/scores"))).shape;
  EXPECT_EQ(std::vector<std::int64_t>(shape.begin(), shape.end()), (std::vector<std::int64_t>{2 * 2, 4, 8}));
}

TEST(TransformerXlTest, AnAdaptiveSoftmaxComparesFewerWords) {
  OptionMap options = kSmall;
  options["softmax_words"] = "3";
  const Graph graph = datasets::MakeModel("transformer_xl", options);
  CheckTrainingGraph(graph);
  const GraphTotals all = TotalsOf(datasets::MakeModel("transformer_xl", kSmall));
  EXPECT_EQ(TotalsOf(graph).parameters, all.parameters);
  // 8 words fewer of width 5 for 2 * 4 positions in each of 3 segments.
  EXPECT_EQ(TotalsOf(graph).forward_product_flop, all.forward_product_flop - 2.0 * 3 * 8 * 5 * 8);
}

TEST(TransformerXlTest, HalfPrecisionHalvesTheActivations) {
  OptionMap options = kSmall;
  options["precision"] = "f16";
  const Graph graph = datasets::MakeModel("transformer_xl", options);
  CheckTrainingGraph(graph);
  const Tensor& scores = graph.tensor(graph.first_output(*graph.FindOp("layer0/segment0/attention/head0/scores")));
  EXPECT_EQ(scores.dtype, DType::kF16);
  EXPECT_EQ(scores.size.count, 2 * 2 * 4 * 8);
}

TEST(TransformerXlTest, SegmentsMustFillTheSequence) {
  try {
    datasets::MakeModel("transformer_xl", {{"segment", "60"}});
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "transformer_xl: segment must divide sequence, which is 256, got 60");
  }
}

}  // namespace transformer_xl_test
}  // namespace emplace::testing
