#include "datasets/image_blocks.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/base/check.h"

namespace emplace::testing {
namespace {

std::vector<std::string> KindsOf(const datasets::NetworkBuilder& net) {
  std::vector<std::string> kinds;
  for (const auto& node : net.nodes()) {
    if (node.pass == Pass::kForward && node.kind != "variable" && node.kind != "input") kinds.push_back(node.kind);
  }
  return kinds;
}

class ImageBlocksTest : public ::testing::Test {
 protected:
  datasets::NetworkBuilder net{"test"};
  datasets::Value Image(std::int64_t channels, std::int64_t size) {
    return net.Input("in" + std::to_string(net.nodes().size()), DType::kF32, {2, channels, size, size});
  }
};

TEST_F(ImageBlocksTest, ASeparableConvolutionIsOneFilterAChannelThenOneByOne) {
  const datasets::Value y = datasets::SeparableConv(net, "sep", Image(8, 9), {16, {5, 5}, datasets::kHalveSame}, 2);
  EXPECT_EQ(net.shape(y), (datasets::Shape{2, 16, 5, 5}));
  EXPECT_EQ(KindsOf(net), (std::vector<std::string>{"relu", "depthwise_conv2d", "conv2d", "batch_norm",  //
                                                    "relu", "depthwise_conv2d", "conv2d", "batch_norm"}));
  // 8*25 + 8*16, then 16*25 + 16*16, and twice gamma and beta of 16.
  EXPECT_EQ(net.num_parameters(), 328 + 656 + 64);
}

TEST_F(ImageBlocksTest, AFactorizedReductionHalvesSizesAndKeepsOddChannels) {
  const datasets::Value y = datasets::FactorizedReduction(net, "reduce", Image(8, 9), 15);
  EXPECT_EQ(net.shape(y), (datasets::Shape{2, 15, 5, 5}));
  EXPECT_EQ(net.num_parameters(), 8 * 7 + 8 * 8 + 30);
}

TEST_F(ImageBlocksTest, ConvolutionsAreNormalisedAndHaveNoBias) {
  EXPECT_EQ(net.shape(datasets::ConvBatchNorm(net, "a", Image(3, 8), {4, {3, 3}, datasets::kSame})),
            (datasets::Shape{2, 4, 8, 8}));
  EXPECT_EQ(net.num_parameters(), 3 * 4 * 9 + 8);
  datasets::ReluConvBatchNorm(net, "b", Image(4, 8), {4, {1, 1}, datasets::kSame});
  EXPECT_EQ(KindsOf(net), (std::vector<std::string>{"conv2d", "batch_norm", "relu", "conv2d", "batch_norm"}));
}

TEST_F(ImageBlocksTest, AClassifierLooksAtTheMeanOfTheImage) {
  const datasets::ImageInputs inputs =
      datasets::AddImageInputs(net, {.batch = 2, .image_size = 8, .classes = 10}, false);
  EXPECT_EQ(net.shape(inputs.labels), datasets::Shape{2});
  EXPECT_EQ(net.shape(datasets::ClassifierLoss(net, inputs.images, inputs.labels, 10, true)), datasets::Shape{2});
  EXPECT_EQ(KindsOf(net), (std::vector<std::string>{"avg_pool", "reshape", "dropout", "matmul", "bias_add",
                                                    "softmax_cross_entropy"}));
  EXPECT_EQ(net.num_parameters(), 3 * 10 + 10);
}

TEST_F(ImageBlocksTest, SmoothedLabelsAreDistributions) {
  EXPECT_EQ(net.shape(datasets::AddImageInputs(net, {.batch = 2, .image_size = 8, .classes = 10}, true).labels),
            (datasets::Shape{2, 10}));
}

TEST_F(ImageBlocksTest, OptionsOutOfRangeAreNamed) {
  const OptionMap map = {{"image_size", "63"}};
  OptionReader reader(map, "net");
  datasets::ImageOptions options;
  try {
    datasets::ReadImageOptions(reader, &options, 64);
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("image_size must be 64..2048, got 63"), std::string::npos) << error.what();
  }
}

}  // namespace
}  // namespace emplace::testing
