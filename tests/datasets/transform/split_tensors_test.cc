#include <gmock/gmock.h>

#include "tests/testing/rank_graphs.h"

namespace emplace::testing {
namespace {

using ::testing::HasSubstr;
using Dims = std::vector<std::int64_t>;

Graph SplitInTwo(const Graph& graph) { return datasets::Transform(graph, {.tensor_parallel = 2}); }

TEST(SplitTensorsTest, EachRankComputesHalfOfEveryProductAndAllOfTheNorms) {
  const Graph whole = TinyGpt();
  const Graph graph = SplitInTwo(whole);
  CheckRanks(graph, 2);
  // As in GptTest: 2 * 8 tokens * (2 blocks * (12 d d + 2 * 4 d) + 12 d) forward, twice that backward.
  const double forward = 2.0 * 8 * (2 * (12 * 64 + 2 * 4 * 8) + 12 * 8);
  for (const char* const rank : {"t0/", "t1/"}) {
    const double products = SumFlop(graph, Both(IsProduct, OfRank(rank)));
    EXPECT_EQ(products, 3 * forward / 2) << rank;
    for (const char* const kind : {"layer_norm", "layer_norm_grad"}) {
      EXPECT_EQ(SumFlop(graph, Both(OfKind(kind), OfRank(rank))), SumFlop(whole, OfKind(kind))) << rank << kind;
    }
    for (const char* const kind : {"gelu", "gelu_grad", "softmax", "softmax_grad"}) {
      EXPECT_EQ(2 * SumFlop(graph, Both(OfKind(kind), OfRank(rank))), SumFlop(whole, OfKind(kind))) << rank << kind;
    }
  }
}

TEST(SplitTensorsTest, ShapesAreThoseOfMegatron) {
  const Graph graph = SplitInTwo(TinyGpt());
  EXPECT_EQ(ShapeOf(graph, "t0/embedding/table"), (Dims{6, 8}));
  EXPECT_EQ(ShapeOf(graph, "t1/block1/attention/qkv/weights"), (Dims{8, 12}));      // by columns
  EXPECT_EQ(ShapeOf(graph, "t1/block1/attention/scores"), (Dims{2, 1, 4, 4}));      // one of two heads
  EXPECT_EQ(ShapeOf(graph, "t1/block1/attention/output/weights"), (Dims{4, 8}));    // by rows
  EXPECT_EQ(ShapeOf(graph, "t1/block1/attention/output/matmul"), (Dims{2, 4, 8}));  // a summand
  EXPECT_EQ(ShapeOf(graph, "t1/block1/feed_forward/inner/matmul"), (Dims{2, 4, 16}));
  EXPECT_EQ(ShapeOf(graph, "t1/block1/feed_forward/outer/bias"), (Dims{8}));
  EXPECT_EQ(ShapeOf(graph, "t1/projection/logits"), (Dims{8, 6}));
  EXPECT_EQ(ShapeOf(graph, "t1/gradients/block0/attention/qkv/matmul/matmul_grad_b"), (Dims{8, 12}));
  // The bias is added to the sum.
  const OpId added = graph.FindOp("t0/block0/attention/output/bias_add").value();
  EXPECT_EQ(graph.op(graph.tensor(graph.inputs(added)[0]).producer).name,
            "t0/block0/attention/output/matmul/all_reduce");
}

TEST(SplitTensorsTest, ABlockAddsUpActivationsTwiceForwardAndTwiceBackward) {
  const Graph graph = SplitInTwo(TinyGpt());
  std::map<std::string, std::int64_t> bytes;
  for (const auto& [group, members] : Collectives(graph)) {
    EXPECT_EQ(graph.op(members[0]).kind, "all_reduce");
    EXPECT_EQ(members.size(), 2U);
    bytes[group] = InputBytes(graph, members[0]);
  }
  // batch * sequence * d_model * 4 bytes.
  const std::int64_t activations = std::int64_t{2} * 4 * 8 * 4;
  std::map<std::string, std::int64_t> expected;
  for (const char* const block : {"block0", "block1"}) {
    const std::string name = block;
    expected[name + "/attention/output/matmul/all_reduce"] = activations;
    expected[name + "/feed_forward/outer/matmul/all_reduce"] = activations;
    expected["gradients/" + name + "/attention/qkv/matmul/matmul_grad_a/all_reduce"] = activations;
    expected["gradients/" + name + "/feed_forward/inner/matmul/matmul_grad_a/all_reduce"] = activations;
  }
  // Embeddings, and what the loss needs of logits that are split: the largest of each of 8 rows, and two sums.
  expected["embedding/gather/all_reduce"] = activations;
  expected["gradients/projection/logits/matmul_grad_a/all_reduce"] = activations;
  expected["loss/softmax_cross_entropy/max/all_reduce"] = std::int64_t{8} * 4;
  expected["loss/softmax_cross_entropy/all_reduce"] = std::int64_t{2} * 8 * 4;
  expected["update/global_norm_scale/all_reduce"] = 4;
  EXPECT_EQ(bytes, expected);
}

TEST(SplitTensorsTest, WeightsAndStateAreSplitAndTheRestIsWhole) {
  const Graph graph = SplitInTwo(TinyGpt());
  // Half the table; positions; of a block qkv 8 * 12 + 12, output 4 * 8 + 8, inner 8 * 16 + 16, outer 16 * 8 + 8, and
  // two norms; the last norm.
  const std::int64_t block = 96 + 12 + 32 + 8 + 128 + 16 + 128 + 8 + 2 * 16;
  const std::int64_t parameters = 48 + 32 + 2 * block + 16;
  for (const char* const rank : {"t0/", "t1/"}) {
    EXPECT_EQ(SumPersistent(graph, Both(OfKind("variable"), OfRank(rank))), 4 * parameters);
    EXPECT_EQ(SumPersistent(graph, Both(OfKind("adam"), OfRank(rank))), 8 * parameters);
  }
}

TEST(SplitTensorsTest, AVocabularyThatDoesNotDivideIsPadded) {
  const Graph graph = SplitInTwo(TinyGpt({{"vocabulary", "11"}}));
  CheckRanks(graph, 2);
  EXPECT_EQ(ShapeOf(graph, "t0/embedding/table"), (Dims{6, 8}));
}

TEST(SplitTensorsTest, NormsOfWholeGradientsCountOnce) {
  const Graph graph = SplitInTwo(TinyGpt());
  EXPECT_TRUE(graph.FindOp("t0/update/block0/norm1/gamma/l2_loss"));
  EXPECT_FALSE(graph.FindOp("t1/update/block0/norm1/gamma/l2_loss"));
  EXPECT_TRUE(graph.FindOp("t1/update/block0/attention/qkv/weights/l2_loss"));
}

TEST(SplitTensorsTest, BertIsSplitToo) {
  const Graph whole = TinyBert();
  const Graph graph = SplitInTwo(whole);
  CheckRanks(graph, 2);
  EXPECT_EQ(ShapeOf(graph, "t0/masked_words/output_bias"), (Dims{6}));
  // All products but the dense layers in front of the two losses: 6 masked words, 2 pairs, d = 8.
  const double dense = 3 * 2.0 * (6 * 64 + 2 * 64 + 2 * 8 * 2);
  EXPECT_EQ(2 * (SumFlop(graph, Both(IsProduct, OfRank("t0/"))) - dense), SumFlop(whole, IsProduct) - dense);
}

TEST(SplitTensorsTest, ActivationsAreThoseOfKorthikanti) {
  // Korthikanti et al. 2022, equation 2: sbh (10 + 24 / t + 5 a s / (h t)) bytes of a layer in 16 bits. We also keep
  // mean and deviation of two norms, in f32.
  const Graph graph = TinyGpt({{"precision", "bf16"}});
  constexpr std::int64_t kSbh = std::int64_t{4} * 2 * 8;
  constexpr std::int64_t kStatistics = std::int64_t{4} * 4 * 2 * 4;
  constexpr std::int64_t kScores = std::int64_t{5} * 2 * 4 * 4 * 2;  // 5 a s s b
  EXPECT_EQ(KeptBytes(graph, "block1"), 34 * kSbh + kScores + kStatistics);
  EXPECT_EQ(KeptBytes(SplitInTwo(graph), "block1", "t1/"), 10 * kSbh + 24 * kSbh / 2 + kScores / 2 + kStatistics);
}

TEST(SplitTensorsTest, WhatCannotBeSplitIsRefused) {
  EXPECT_EQ(TransformRefusal(TinyGpt(), {.tensor_parallel = 4}),
            "tensor_parallel: 4 does not divide heads, of which there are 2");
  EXPECT_THAT(TransformRefusal(datasets::MakeModel("rnnlm", {{"layers", "1"}, {"steps", "2"}}), {.tensor_parallel = 2}),
              HasSubstr("the graph is not one of the models gpt, bert and llama"));
  EXPECT_THAT(TransformRefusal(TinyGpt({{"experts", "2"}}), {.tensor_parallel = 2}), HasSubstr("mixture of experts"));
}

}  // namespace
}  // namespace emplace::testing
