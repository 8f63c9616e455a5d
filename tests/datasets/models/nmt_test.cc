#include <gtest/gtest.h>

#include <set>
#include <string>

#include "tests/testing/training_graph.h"

namespace emplace::testing {
namespace {

using Layers = std::set<std::string, std::less<>>;

TEST(NmtTest, HasThePublishedNumberOfOps) {
  // Placeto's appendix: 6,361 with 2 layers and 10,812 with 4, unrolled to 32; 20 % either way.
  const std::size_t two = datasets::MakeModel("nmt").num_ops();
  EXPECT_GE(two, 5120U);
  EXPECT_LE(two, 7680U);
  const std::size_t four = datasets::MakeModel("nmt", {{"layers", "4"}}).num_ops();
  EXPECT_GE(four, 8650U);
  EXPECT_LE(four, 12974U);
}

TEST(NmtTest, ParametersAreThoseOfTheLayersWrittenOut) {
  const double h = 1024;
  const double v = 32000;
  const auto lstm = [h](double inputs) { return (inputs + h) * 4 * h + 4 * h; };
  const double expected = 2 * v * h                    // two tables
                          + 2 * lstm(h)                // bottom encoder layer, both ways
                          + lstm(2 * h)                // top encoder layer
                          + h * h + h * h + h + h      // attention: query, memory, bias, scores
                          + lstm(2 * h) + lstm(2 * h)  // decoder: input from below, and the context
                          + h * v + v;                 // projection
  EXPECT_EQ(TotalsOf(datasets::MakeModel("nmt")).parameters, expected);
}

TEST(NmtTest, BackwardCostsTwiceForward) {
  const GraphTotals totals =
      TotalsOf(datasets::MakeModel("nmt", {{"hidden", "64"}, {"vocabulary", "100"}, {"steps", "3"}}));
  EXPECT_EQ(totals.backward_product_flop, 2 * totals.forward_product_flop);
}

TEST(NmtTest, ForwardProductsAreThoseWrittenOut) {
  // hidden h = 8, vocabulary 20, batch 4, 3 steps. Multiply-adds for each of 3 steps: bottom encoder 2 * 4 * 16*32, top
  // 4 * 24*32, decoder 2 * 4 * 24*32, query 4 * 8*8, keys 4 * 8*8, context 4 * 3*8, projection 4 * 8*20.
  const double each = 4096 + 3072 + 6144 + 256 + 256 + 96 + 640;
  const GraphTotals totals =
      TotalsOf(datasets::MakeModel("nmt", {{"hidden", "8"}, {"vocabulary", "20"}, {"batch", "4"}, {"steps", "3"}}));
  EXPECT_EQ(totals.forward_product_flop, 2 * 3 * each);
}

TEST(NmtTest, LayersAreNamedAsTheExpertPlacementReadsThem) {
  EXPECT_EQ(TotalsOf(datasets::MakeModel("nmt", {{"layers", "3"}, {"hidden", "8"}, {"steps", "2"}})).layers,
            (Layers{"encoder/embedding", "encoder/lstm0", "encoder/lstm1", "encoder/lstm2", "decoder/embedding",
                    "decoder/lstm0", "decoder/lstm1", "decoder/lstm2", "attention", "projection", "loss"}));
}

TEST(NmtTest, GradientsOfSharedWeightsAreAddedOverTheSteps) {
  const Graph graph = datasets::MakeModel("nmt", {{"hidden", "8"}, {"vocabulary", "20"}, {"steps", "5"}});
  for (const std::string weights :
       {"encoder/lstm0/forward/kernel", "encoder/lstm0/backward/kernel", "encoder/lstm1/kernel", "decoder/lstm0/kernel",
        "decoder/lstm1/bias", "projection/kernel", "attention/query_weights"}) {
    const auto sum = graph.FindOp("gradients/" + weights + "/add_n");
    ASSERT_TRUE(sum) << weights;
    EXPECT_EQ(graph.inputs(*sum).size(), 5U) << weights;
  }
}

TEST(NmtTest, AttentionAsksWithTheBottomLayerOfTheStepBefore) {
  const Graph graph = datasets::MakeModel("nmt", {{"hidden", "8"}, {"vocabulary", "20"}, {"steps", "3"}});
  const auto asks = [&graph](const std::string& step) {
    const OpId query = *graph.FindOp("attention/" + step + "/query");
    return std::string(graph.op(graph.tensor(graph.inputs(query)[0]).producer).name);
  };
  EXPECT_EQ(asks("step00"), "encoder/lstm0/forward/step02/hidden");  // the last state of the encoder
  EXPECT_EQ(asks("step01"), "decoder/lstm0/step00/hidden");
  EXPECT_EQ(asks("step02"), "decoder/lstm0/step01/hidden");
  // Every decoder layer reads the context of its own step.
  for (const std::string layer : {"decoder/lstm0", "decoder/lstm1"}) {
    const OpId concat = *graph.FindOp(layer + "/step02/concat");
    EXPECT_EQ(graph.op(graph.tensor(graph.inputs(concat)[1]).producer).name, "attention/step02/context_rows");
  }
}

TEST(NmtTest, ResidualConnectionsStartAtTheThirdLayer) {
  const Graph graph =
      datasets::MakeModel("nmt", {{"layers", "3"}, {"hidden", "8"}, {"vocabulary", "20"}, {"steps", "2"}});
  EXPECT_TRUE(graph.FindOp("encoder/lstm2/step00/residual"));
  EXPECT_TRUE(graph.FindOp("decoder/lstm2/step01/residual"));
  EXPECT_FALSE(graph.FindOp("encoder/lstm1/step00/residual"));
  EXPECT_FALSE(graph.FindOp("decoder/lstm1/step00/residual"));
}

TEST(NmtTest, HasThePublishedParametersAtEightLayers) {
  // Shazeer et al. 2017, "Outrageously large neural networks", table 2, counts 278 M in Google's system. Ours is 1.03 %
  // larger: the context enters every layer's product, and embeddings are of words, not of pieces.
  EXPECT_NEAR(TotalsOf(datasets::MakeModel("nmt", {{"layers", "8"}})).parameters, 278e6, 0.011 * 278e6);
}

TEST(NmtTest, TheFinestGranularityHasAsManyOpsAsTheLargestPublishedGraphSlow) {
  // Mirhoseini et al. 2018, section 3.1: 83,712 ops with 8 layers.
  const Graph graph = datasets::MakeModel("nmt", {{"layers", "8"}, {"granularity", "slice"}});
  EXPECT_GE(graph.num_ops(), 80000U);
  const GraphTotals fused = TotalsOf(datasets::MakeModel("nmt", {{"layers", "8"}}));
  EXPECT_EQ(TotalsOf(graph).parameters, fused.parameters);
  EXPECT_EQ(TotalsOf(graph).forward_product_flop, fused.forward_product_flop);
}

TEST(NmtTest, HalfPrecisionKeepsF32CopiesForTheUpdates) {
  const Graph graph = datasets::MakeModel(
      "nmt", {{"hidden", "8"}, {"vocabulary", "20"}, {"steps", "2"}, {"precision", "f16"}, {"optimizer", "adam"}});
  CheckTrainingGraph(graph);
  const Tensor& kernel = graph.tensor(graph.first_output(*graph.FindOp("encoder/lstm1/kernel")));
  EXPECT_EQ(kernel.dtype, DType::kF16);
  const OpId update = *graph.FindOp("update/encoder/lstm1/kernel/adam");
  EXPECT_EQ(graph.op(update).persistent.count, 3 * 4 * kernel.size.count / 2);
}

TEST(NmtTest, TheSmallestOptionsWork) {
  const OptionMap smallest = {{"layers", "1"}, {"batch", "1"}, {"hidden", "1"}, {"vocabulary", "1"}, {"steps", "1"}};
  CheckTrainingGraph(datasets::MakeModel("nmt", smallest));
}

}  // namespace
}  // namespace emplace::testing
