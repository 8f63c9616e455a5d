#include <gtest/gtest.h>

#include <string>

#include "sim/base/check.h"
#include "tests/testing/training_graph.h"

namespace emplace::testing {
namespace {

struct Published {
  std::string layers;
  double parameters;
  double multiply_adds;
  double tolerance;  // tolerance of the multiply-adds
  std::size_t convolutions;
};

// Parameters as published for the authors' models; multiply-adds from He et al. 2016a, table 1, for an image of 224 x
// 224 (200 layers: "about 15 G", so 5 %). Convolutions: the first, three a block, four shortcuts.
const Published kPublished[] = {
    {"50", 25.6e6, 3.8e9, 0.03, 1 + 3 * 16 + 4},
    {"101", 44.5e6, 7.6e9, 0.03, 1 + 3 * 33 + 4},
    {"152", 60.2e6, 11.3e9, 0.03, 1 + 3 * 50 + 4},
    {"200", 64.7e6, 15e9, 0.05, 1 + 3 * 66 + 4},
};

TEST(ResnetTest, HasThePublishedParametersAndMultiplyAdds) {
  for (const Published& row : kPublished) {
    const GraphTotals totals = TotalsOf(datasets::MakeModel("resnet", {{"layers", row.layers}, {"batch", "1"}}));
    EXPECT_NEAR(totals.parameters, row.parameters, 0.01 * row.parameters) << row.layers;
    EXPECT_NEAR(totals.forward_product_flop / 2, row.multiply_adds, row.tolerance * row.multiply_adds) << row.layers;
    EXPECT_EQ(totals.kinds.at("conv2d"), row.convolutions) << row.layers;
  }
}

TEST(ResnetTest, Resnet50HasExactlyTheKnownParameters) {
  // 23,454,912 weights of 53 convolutions, 26,560 normalised channels with two parameters each, 2048 * 1000 + 1000.
  EXPECT_EQ(TotalsOf(datasets::MakeModel("resnet", {{"batch", "1"}})).parameters, 23454912 + 2 * 26560 + 2049000);
}

TEST(ResnetTest, PreactivatedBlocksAddWithoutActivation) {
  const Graph graph = datasets::MakeModel("resnet", {{"layers", "200"}, {"batch", "1"}});
  CheckTrainingGraph(graph);
  EXPECT_FALSE(graph.FindOp("stage2_block1/relu3"));
  EXPECT_TRUE(graph.FindOp("stage2_block1/norm1/relu"));
}

TEST(ResnetTest, OnlyThePublishedDepthsExist) {
  EXPECT_THROW(datasets::MakeModel("resnet", {{"layers", "51"}}), InputError);
  CheckTrainingGraph(datasets::MakeModel("resnet", {{"image_size", "32"}, {"batch", "1"}}));
}

TEST(ResnetTest, HalfPrecisionIsThatOfConvolutionsAndNorms) {
  const Graph graph = datasets::MakeModel("resnet", {{"batch", "2"}, {"image_size", "32"}, {"precision", "bf16"}});
  CheckTrainingGraph(graph);
  for (const std::string op : {"data/cast", "conv1/conv/conv2d", "conv1/conv/batch_norm", "conv1/relu"}) {
    ASSERT_TRUE(graph.FindOp(op)) << op;
    EXPECT_EQ(graph.tensor(graph.first_output(*graph.FindOp(op))).dtype, DType::kBf16) << op;
  }
  EXPECT_EQ(TotalsOf(graph).parameters,
            TotalsOf(datasets::MakeModel("resnet", {{"batch", "2"}, {"image_size", "32"}})).parameters);
}

}  // namespace
}  // namespace emplace::testing
