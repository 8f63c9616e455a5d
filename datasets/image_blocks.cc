#include "datasets/image_blocks.h"

#include <fmt/format.h>

namespace emplace::datasets {

void ReadImageOptions(OptionReader& reader, ImageOptions* options, std::int64_t smallest_image) {
  reader.Read("batch", &options->batch, 1, 65536, "images in a step");
  reader.Read("image_size", &options->image_size, smallest_image, 2048, "height and width of an image in pixels");
  reader.Read("classes", &options->classes, 1, 1000000, "number of classes");
}

ImageInputs AddImageInputs(NetworkBuilder& net, const ImageOptions& options, bool smoothed_labels) {
  const auto scope = net.Layer("data");
  const Value images = net.Input("images", DType::kF32, {options.batch, 3, options.image_size, options.image_size});
  const Value labels = smoothed_labels ? net.Input("labels", DType::kF32, {options.batch, options.classes})
                                       : net.Input("labels", DType::kI32, {options.batch});
  return {.images = images, .labels = labels};
}

Value ConvBatchNorm(NetworkBuilder& net, std::string_view name, Value x, const Conv& conv,
                    const BatchNormOptions& options) {
  const auto scope = net.Within(name);
  return BatchNorm(net, Conv2d(net, x, conv.filters, conv.kernel, conv.sliding), options);
}

Value ReluConvBatchNorm(NetworkBuilder& net, std::string_view name, Value x, const Conv& conv,
                        const BatchNormOptions& options) {
  const auto scope = net.Within(name);
  const Value active = Unary(net, "relu", x);
  return BatchNorm(net, Conv2d(net, active, conv.filters, conv.kernel, conv.sliding), options);
}

Value SeparableConv(NetworkBuilder& net, std::string_view name, Value x, const Conv& conv, int times,
                    const BatchNormOptions& options) {
  const auto scope = net.Within(name);
  for (int i = 0; i < times; ++i) {
    const auto round = net.Within(fmt::format("separable{}", i));
    x = Unary(net, "relu", x);
    x = DepthwiseConv2d(net, x, 1, conv.kernel, i == 0 ? conv.sliding : kSame);
    x = Conv2d(net, x, conv.filters, {1, 1});
    x = BatchNorm(net, x, options);
  }
  return x;
}

Value FactorizedReduction(NetworkBuilder& net, std::string_view name, Value x, std::int64_t filters,
                          const BatchNormOptions& options) {
  const auto scope = net.Within(name);
  const Sliding every_second = {.stride = {2, 2}, .same = false, .dilation = {1, 1}};
  const auto half = [&](std::string_view path, Value from, std::int64_t width) {
    const auto in_path = net.Within(path);
    return Conv2d(net, AvgPool(net, from, {1, 1}, every_second), width, {1, 1});
  };
  x = Unary(net, "relu", x);
  const Shape shape = net.shape(x);
  const Value first = half("path0", x, filters / 2);
  const Value padded = Pad(net, x, {0, 0, 0, 0}, {0, 0, 1, 1});
  const Value shifted = Slice(net, padded, {0, 0, 1, 1}, shape);
  const Value second = half("path1", shifted, filters - filters / 2);
  return BatchNorm(net, Concat(net, {first, second}, 1), options);
}

Value ClassifierLoss(NetworkBuilder& net, Value x, Value labels, std::int64_t classes, bool dropout) {
  const Shape shape = net.shape(x);
  Value features = Reshape(net, AvgPool(net, x, {shape[2], shape[3]}, kValid), {shape[0], shape[1]});
  if (dropout) features = Dropout(net, features);
  return SoftmaxCrossEntropy(net, Dense(net, features, classes), labels);
}

}  // namespace emplace::datasets
