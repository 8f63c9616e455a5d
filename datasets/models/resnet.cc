#include <fmt/format.h>

#include <array>
#include <map>
#include <string>
#include <string_view>

#include "datasets/image_blocks.h"
#include "datasets/models/models.h"
#include "datasets/training.h"

namespace emplace::datasets {
namespace {

constexpr BatchNormOptions kResNetNorm = {.scale = true, .average_rate = 0.1};
constexpr std::int64_t kExpansion = 4;  // filters that leave a bottleneck, by those inside

struct Variant {
  std::array<int, 4> blocks;  // blocks of each stage: He et al. 2016a, table 1; 2016b, section 4 for 200 layers
  bool preactivation;
};
const std::map<std::string, Variant, std::less<>>& Variants() {
  static const std::map<std::string, Variant, std::less<>> variants = {
      {"50", {{3, 4, 6, 3}, false}},
      {"101", {{3, 4, 23, 3}, false}},
      {"152", {{3, 8, 36, 3}, false}},
      {"200", {{3, 24, 36, 3}, true}},
  };
  return variants;
}

Sliding Stride(std::int64_t stride) { return {.stride = {stride, stride}, .same = true, .dilation = {1, 1}}; }

// 2016a, figure 5 right: the stride is in the first 1x1 convolution, and in the shortcut where there is one (option B).
Value Bottleneck(NetworkBuilder& net, Value x, std::int64_t width, std::int64_t stride) {
  Value shortcut = x;
  if (stride != 1 || net.shape(x)[1] != kExpansion * width) {
    shortcut = ConvBatchNorm(net, "shortcut", x, {kExpansion * width, {1, 1}, Stride(stride)}, kResNetNorm);
  }
  Value y = ConvBatchNorm(net, "conv1", x, {width, {1, 1}, Stride(stride)}, kResNetNorm);
  y = ConvBatchNorm(net, "conv2", Unary(net, "relu", y, "relu1"), {width, {3, 3}, kSame}, kResNetNorm);
  y = ConvBatchNorm(net, "conv3", Unary(net, "relu", y, "relu2"), {kExpansion * width, {1, 1}, kSame}, kResNetNorm);
  return Unary(net, "relu", Binary(net, "add", y, shortcut), "relu3");
}

Value BatchNormRelu(NetworkBuilder& net, std::string_view name, Value x) {
  const auto scope = net.Within(name);
  return Unary(net, "relu", BatchNorm(net, x, kResNetNorm));
}

Value PlainConv(NetworkBuilder& net, std::string_view name, Value x, const Conv& conv) {
  const auto scope = net.Within(name);
  return Conv2d(net, x, conv.filters, conv.kernel, conv.sliding);
}

// 2016b, figure 1b: normalised and activated before each convolution; the stride in the 3x3 one, as in its authors'
// published model.
Value PreactivatedBottleneck(NetworkBuilder& net, Value x, std::int64_t width, std::int64_t stride) {
  const Value active = BatchNormRelu(net, "norm1", x);
  Value shortcut = x;
  if (stride != 1 || net.shape(x)[1] != kExpansion * width) {
    shortcut = PlainConv(net, "shortcut", active, {kExpansion * width, {1, 1}, Stride(stride)});
  }
  Value y = PlainConv(net, "conv1", active, {width, {1, 1}, kSame});
  y = PlainConv(net, "conv2", BatchNormRelu(net, "norm2", y), {width, {3, 3}, Stride(stride)});
  y = PlainConv(net, "conv3", BatchNormRelu(net, "norm3", y), {kExpansion * width, {1, 1}, kSame});
  return Binary(net, "add", y, shortcut);
}

Value ResNetStem(NetworkBuilder& net, Value images) {
  const auto scope = net.Layer("conv1");
  const Value x = ConvBatchNorm(net, "conv", images, {64, {7, 7}, kHalveSame}, kResNetNorm);
  return MaxPool(net, Unary(net, "relu", x), {3, 3}, kHalveSame);
}

}  // namespace

Graph MakeResnet(OptionReader& reader) {
  ImageOptions images;
  std::string layers = "50";
  TrainingOptions training = {.optimizer = "momentum", .clip_gradients = false, .average_variables = false};
  reader.Read("layers", &layers, {"50", "101", "152", "200"}, "depth; 200 is the pre-activation network");
  ReadImageOptions(reader, &images, 32);
  const DType precision = ReadPrecision(reader);
  training.f32_masters = precision != DType::kF32;
  ReadTrainingOptions(reader, &training);
  reader.Finish();
  const Variant& variant = Variants().at(layers);

  NetworkBuilder net("resnet", precision);
  const ImageInputs inputs = AddImageInputs(net, images, /*smoothed_labels=*/false);
  Value x = inputs.images;
  if (precision != DType::kF32) {
    const auto scope = net.Layer("data");
    x = Cast(net, x, precision);
  }
  x = ResNetStem(net, x);
  std::int64_t width = 64;
  for (std::size_t stage = 0; stage < variant.blocks.size(); ++stage, width *= 2) {
    for (int block = 0; block < variant.blocks[stage]; ++block) {
      const auto scope = net.Layer(fmt::format("stage{}_block{}", stage + 2, block));
      const std::int64_t stride = stage > 0 && block == 0 ? 2 : 1;
      x = variant.preactivation ? PreactivatedBottleneck(net, x, width, stride) : Bottleneck(net, x, width, stride);
    }
  }
  const auto scope = net.Layer("logits");
  if (variant.preactivation) x = BatchNormRelu(net, "norm", x);
  const Value losses = ClassifierLoss(net, x, inputs.labels, images.classes, /*dropout=*/false);
  return BuildTrainingGraph(net, Reduce(net, "reduce_mean", losses, {0}), training);
}

}  // namespace emplace::datasets
