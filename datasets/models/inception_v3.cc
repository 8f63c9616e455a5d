#include <fmt/format.h>

#include <array>
#include <string>
#include <vector>

#include "datasets/image_blocks.h"
#include "datasets/models/models.h"
#include "datasets/training.h"

namespace emplace::datasets {
namespace {

constexpr Sliding kHalve = {.stride = {2, 2}, .same = false, .dilation = {1, 1}};

// Convolution, batch normalisation, relu.
Value ConvBlock(NetworkBuilder& net, std::string_view name, Value x, const Conv& conv) {
  const auto scope = net.Within(name);
  const Value y = Conv2d(net, x, conv.filters, conv.kernel, conv.sliding);
  return Unary(net, "relu", BatchNorm(net, y, {.scale = false, .average_rate = 0.0003}));
}

// Convolutions one after another, in a scope of their own.
Value Branch(NetworkBuilder& net, std::string_view name, Value x, const std::vector<Conv>& convs) {
  const auto scope = net.Within(name);
  for (std::size_t i = 0; i < convs.size(); ++i) {
    const auto [rows, columns] = convs[i].kernel;
    x = ConvBlock(net, fmt::format("conv{}_{}x{}", i, rows, columns), x, convs[i]);
  }
  return x;
}

Value PoolBranch(NetworkBuilder& net, std::string_view name, Value x, std::int64_t filters) {
  const auto scope = net.Within(name);
  return ConvBlock(net, "conv0_1x1", AvgPool(net, x, {3, 3}, kSame), {filters, {1, 1}});
}

Value MaxPoolBranch(NetworkBuilder& net, std::string_view name, Value x) {
  const auto scope = net.Within(name);
  return MaxPool(net, x, {3, 3}, kHalve);
}

constexpr std::size_t kChannelAxis = 1;

// 35 x 35: figure 5, its 5 x 5 kept as in the authors' model.
Value Block35(NetworkBuilder& net, std::string_view layer, Value x, std::int64_t pool_filters) {
  const auto scope = net.Layer(layer);
  const std::vector<Value> branches = {
      Branch(net, "branch0", x, {{64, {1, 1}}}),
      Branch(net, "branch1", x, {{48, {1, 1}}, {64, {5, 5}}}),
      Branch(net, "branch2", x, {{64, {1, 1}}, {96, {3, 3}}, {96, {3, 3}}}),
      PoolBranch(net, "branch3", x, pool_filters),
  };
  return Concat(net, branches, kChannelAxis);
}

// To 17 x 17: figure 10.
Value Reduce17(NetworkBuilder& net, std::string_view layer, Value x) {
  const auto scope = net.Layer(layer);
  const std::vector<Value> branches = {
      Branch(net, "branch0", x, {{384, {3, 3}, kHalve}}),
      Branch(net, "branch1", x, {{64, {1, 1}}, {96, {3, 3}}, {96, {3, 3}, kHalve}}),
      MaxPoolBranch(net, "branch2", x),
  };
  return Concat(net, branches, kChannelAxis);
}

// 17 x 17: figure 6 with n = 7; `width` filters inside.
Value Block17(NetworkBuilder& net, std::string_view layer, Value x, std::int64_t width) {
  const auto scope = net.Layer(layer);
  const std::vector<Value> branches = {
      Branch(net, "branch0", x, {{192, {1, 1}}}),
      Branch(net, "branch1", x, {{width, {1, 1}}, {width, {1, 7}}, {192, {7, 1}}}),
      Branch(net, "branch2", x, {{width, {1, 1}}, {width, {7, 1}}, {width, {1, 7}}, {width, {7, 1}}, {192, {1, 7}}}),
      PoolBranch(net, "branch3", x, 192),
  };
  return Concat(net, branches, kChannelAxis);
}

// To 8 x 8.
Value Reduce8(NetworkBuilder& net, std::string_view layer, Value x) {
  const auto scope = net.Layer(layer);
  const std::vector<Value> branches = {
      Branch(net, "branch0", x, {{192, {1, 1}}, {320, {3, 3}, kHalve}}),
      Branch(net, "branch1", x, {{192, {1, 1}}, {192, {1, 7}}, {192, {7, 1}}, {192, {3, 3}, kHalve}}),
      MaxPoolBranch(net, "branch2", x),
  };
  return Concat(net, branches, kChannelAxis);
}

// The 1 x 3 and the 3 x 1 of figure 7, side by side.
Value Expand(NetworkBuilder& net, std::string_view name, Value x) {
  const auto scope = net.Within(name);
  return Concat(net, {ConvBlock(net, "conv_1x3", x, {384, {1, 3}}), ConvBlock(net, "conv_3x1", x, {384, {3, 1}})},
                kChannelAxis);
}

// 8 x 8: figure 7.
Value Block8(NetworkBuilder& net, std::string_view layer, Value x) {
  const auto scope = net.Layer(layer);
  const std::vector<Value> branches = {
      Branch(net, "branch0", x, {{320, {1, 1}}}),
      Expand(net, "branch1_expanded", Branch(net, "branch1", x, {{384, {1, 1}}})),
      Expand(net, "branch2_expanded", Branch(net, "branch2", x, {{448, {1, 1}}, {384, {3, 3}}})),
      PoolBranch(net, "branch3", x, 192),
  };
  return Concat(net, branches, kChannelAxis);
}

Value InceptionStem(NetworkBuilder& net, Value x) {
  struct Row {
    std::string_view layer;
    Conv conv;
    bool pool_after;
  };
  const std::vector<Row> rows = {{"conv1a", {32, {3, 3}, kHalve}, false},
                                 {"conv2a", {32, {3, 3}, kValid}, false},
                                 {"conv2b", {64, {3, 3}, kSame}, true},
                                 {"conv3b", {80, {1, 1}, kValid}, false},
                                 {"conv4a", {192, {3, 3}, kValid}, true}};
  for (const Row& row : rows) {
    const auto scope = net.Layer(row.layer);
    x = ConvBlock(net, fmt::format("conv_{}x{}", row.conv.kernel[0], row.conv.kernel[1]), x, row.conv);
    if (row.pool_after) x = MaxPool(net, x, {3, 3}, kHalve);
  }
  return x;
}

// Images to the last 8 x 8 grid; *grid17 is the last 17 x 17 one.
Value Body(NetworkBuilder& net, Value images, Value* grid17) {
  Value x = InceptionStem(net, images);
  x = Block35(net, "mixed_5b", x, 32);
  x = Block35(net, "mixed_5c", x, 64);
  x = Block35(net, "mixed_5d", x, 64);
  x = Reduce17(net, "mixed_6a", x);
  x = Block17(net, "mixed_6b", x, 128);
  x = Block17(net, "mixed_6c", x, 160);
  x = Block17(net, "mixed_6d", x, 160);
  x = Block17(net, "mixed_6e", x, 192);
  *grid17 = x;
  x = Reduce8(net, "mixed_7a", x);
  x = Block8(net, "mixed_7b", x);
  return Block8(net, "mixed_7c", x);
}

// The auxiliary classifier on the last 17 x 17 grid (section 4), its loss weighted 0.4 as in the authors' model.
Value Auxiliary(NetworkBuilder& net, Value x, Value labels) {
  const auto scope = net.Layer("auxiliary");
  const Sliding stride3 = {.stride = {3, 3}, .same = false, .dilation = {1, 1}};
  x = ConvBlock(net, "conv0_1x1", AvgPool(net, x, {5, 5}, stride3), {128, {1, 1}});
  const Shape shape = net.shape(x);
  x = ConvBlock(net, "conv1", x, {768, {shape[2], shape[3]}, kValid});
  const Value logits = Dense(net, Reshape(net, x, {shape[0], 768}), net.shape(labels)[1]);
  return Scale(net, SoftmaxCrossEntropy(net, logits, labels), 0.4, "weight");
}

}  // namespace

Graph MakeInceptionV3(OptionReader& reader) {
  ImageOptions images = {.batch = 32, .image_size = 299, .classes = 1000};
  bool auxiliary = false;
  TrainingOptions training = {.optimizer = "rmsprop", .clip_gradients = true, .average_variables = true};
  ReadImageOptions(reader, &images, 107);
  reader.Read("auxiliary", &auxiliary, "train the auxiliary classifier too");
  ReadTrainingOptions(reader, &training);
  reader.Finish();

  NetworkBuilder net("inception_v3");
  const ImageInputs inputs = AddImageInputs(net, images, /*smoothed_labels=*/true);
  Value grid17;
  const Value x = Body(net, inputs.images, &grid17);
  std::vector<Value> losses;
  {
    const auto scope = net.Layer("logits");
    losses.push_back(ClassifierLoss(net, x, inputs.labels, images.classes, /*dropout=*/true));
  }
  if (auxiliary) losses.push_back(Auxiliary(net, grid17, inputs.labels));
  const auto scope = net.Layer("loss");
  const Value loss = losses.size() == 1 ? losses.front() : AddN(net, losses);
  return BuildTrainingGraph(net, Reduce(net, "reduce_mean", loss, {0}), training);
}

}  // namespace emplace::datasets
