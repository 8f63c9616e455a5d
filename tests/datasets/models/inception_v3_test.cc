#include <gtest/gtest.h>

#include "sim/base/check.h"
#include "tests/testing/training_graph.h"

namespace emplace::testing {
namespace {

TEST(InceptionV3Test, HasThePublishedParametersAndMultiplyAdds) {
  const GraphTotals totals = TotalsOf(datasets::MakeModel("inception_v3", {{"batch", "1"}}));
  // 23.8 M parameters within 1 %. The authors' model has 21,751,136 weights in 94 convolutions, 17,216 offsets (one per
  // channel) and 2048 * 1000 + 1000 in the classifier.
  EXPECT_NEAR(totals.parameters, 23.8e6, 0.238e6);
  EXPECT_EQ(totals.parameters, 21751136 + 17216 + 2049000);
  EXPECT_EQ(totals.kinds.at("conv2d"), 94U);
  // 5.7 G multiply-adds an image within 3 %.
  EXPECT_NEAR(totals.forward_product_flop / 2, 5.7e9, 0.171e9);
}

TEST(InceptionV3Test, HasThePublishedNumberOfOps) {
  // Placeto's appendix counts 3,002 in its TensorFlow graph; 20 % either way.
  const Graph graph = datasets::MakeModel("inception_v3");
  EXPECT_GE(graph.num_ops(), 2400U);
  EXPECT_LE(graph.num_ops(), 3600U);
}

TEST(InceptionV3Test, BackwardCostsTwiceForwardButForTheImages) {
  const Graph graph = datasets::MakeModel("inception_v3", {{"batch", "4"}});
  const GraphTotals totals = TotalsOf(graph);
  // The first convolution has no input gradient: 149 * 149 * 32 outputs of 27 products, 4 images.
  const double first = 2.0 * 4 * 149 * 149 * 32 * 27;
  EXPECT_EQ(graph.op(*graph.FindOp("conv1a/conv_3x3/conv2d")).flop, first);
  EXPECT_EQ(totals.backward_product_flop, 2 * totals.forward_product_flop - first);
}

TEST(InceptionV3Test, GridsHaveTheSizesOfTheTable) {
  const Graph graph = datasets::MakeModel("inception_v3", {{"batch", "1"}});
  // Table 1 of the paper; the first grid's 192 + 96 = 288 channels come after mixed_5b.
  const std::vector<std::pair<std::string, std::vector<std::int64_t>>> rows = {
      {"conv4a/max_pool", {1, 192, 35, 35}}, {"mixed_5d/concat", {1, 288, 35, 35}},
      {"mixed_6a/concat", {1, 768, 17, 17}}, {"mixed_6e/concat", {1, 768, 17, 17}},
      {"mixed_7a/concat", {1, 1280, 8, 8}},  {"mixed_7c/concat", {1, 2048, 8, 8}},
      {"logits/bias_add", {1, 1000}},
  };
  for (const auto& [name, shape] : rows) {
    const auto id = graph.FindOp(name);
    ASSERT_TRUE(id) << name;
    const auto found = graph.tensor(graph.first_output(*id)).shape;
    EXPECT_EQ(std::vector<std::int64_t>(found.begin(), found.end()), shape) << name;
  }
}

TEST(InceptionV3Test, TheAuxiliaryClassifierIsAnOption) {
  const GraphTotals plain = TotalsOf(datasets::MakeModel("inception_v3", {{"batch", "1"}}));
  const Graph graph = datasets::MakeModel("inception_v3", {{"batch", "1"}, {"auxiliary", "true"}});
  CheckTrainingGraph(graph);
  // Its grid is 5 x 5: 768*128 and 128*768*25 weights, 128 + 768 offsets, 768*1000 + 1000 in the classifier.
  EXPECT_EQ(TotalsOf(graph).parameters - plain.parameters, 98304 + 2457600 + 896 + 769000);
}

TEST(InceptionV3Test, TheSmallestImagesStillWork) {
  CheckTrainingGraph(
      datasets::MakeModel("inception_v3", {{"batch", "1"}, {"image_size", "107"}, {"auxiliary", "true"}}));
  EXPECT_THROW(datasets::MakeModel("inception_v3", {{"image_size", "106"}}), InputError);
}

TEST(InceptionV3Test, BatchScalesActivationsAndNotWeights) {
  const GraphTotals one = TotalsOf(datasets::MakeModel("inception_v3", {{"batch", "1"}}));
  const GraphTotals eight = TotalsOf(datasets::MakeModel("inception_v3", {{"batch", "8"}}));
  EXPECT_EQ(eight.parameters, one.parameters);
  EXPECT_EQ(eight.forward_product_flop, 8 * one.forward_product_flop);
}

}  // namespace
}  // namespace emplace::testing
