#include <fmt/format.h>

#include <array>
#include <string_view>

#include "datasets/layers.h"
#include "datasets/models/models.h"
#include "datasets/training.h"

namespace emplace::datasets {
namespace {

constexpr std::int64_t kFilterWidth = 2;

struct WavenetOptions {
  std::int64_t stacks = 4;
  std::int64_t layers = 9;
  std::int64_t batch = 64;
  std::int64_t samples = 2048;
  std::int64_t channels = 64;
  std::int64_t skip_channels = 256;
  std::int64_t levels = 256;
};

Value BiasedConv(NetworkBuilder& net, std::string_view name, Value x, std::int64_t filters, std::int64_t width,
                 std::int64_t dilation) {
  const auto scope = net.Within(name);
  const Sliding sliding = {.stride = {1, 1}, .same = false, .dilation = {1, dilation}};
  return AddBias(net, Conv2d(net, x, filters, {1, width}, sliding));
}

// Zeros in front, so that a convolution sees no later sample and keeps the length.
Value Delay(NetworkBuilder& net, Value x, std::int64_t dilation) {
  return Pad(net, x, {0, 0, 0, dilation * (kFilterWidth - 1)}, {0, 0, 0, 0});
}

// Figure 4. Adds the layer's part to *skip; nothing reads what the last layer would pass on.
Value ResidualLayer(NetworkBuilder& net, Value x, std::int64_t dilation, const WavenetOptions& options, bool last,
                    Value* skip) {
  const Value delayed = Delay(net, x, dilation);
  const Value filter = Unary(net, "tanh", BiasedConv(net, "filter", delayed, options.channels, kFilterWidth, dilation));
  const Value gate = Unary(net, "sigmoid", BiasedConv(net, "gate", delayed, options.channels, kFilterWidth, dilation));
  const Value gated = Binary(net, "mul", filter, gate, "gated");
  const Value part = BiasedConv(net, "skip", gated, options.skip_channels, 1, 1);
  *skip = skip->exists() ? Binary(net, "add", *skip, part, "skip_sum") : part;
  if (last) return x;
  return Binary(net, "add", x, BiasedConv(net, "residual", gated, options.channels, 1, 1), "residual_sum");
}

}  // namespace

Graph MakeWavenet(OptionReader& reader) {
  WavenetOptions options;
  TrainingOptions training = {.optimizer = "adam", .clip_gradients = true, .average_variables = true};
  reader.Read("stacks", &options.stacks, 1, 64, "stacks of layers whose dilations double, starting from 1");
  reader.Read("layers", &options.layers, 1, 16, "layers of a stack");
  reader.Read("batch", &options.batch, 1, 65536, "pieces of audio in a step");
  reader.Read("samples", &options.samples, 1, 1048576, "samples of a piece");
  reader.Read("channels", &options.channels, 1, 65536,
              "channels of the residual stream and of the dilated convolutions");
  reader.Read("skip_channels", &options.skip_channels, 1, 65536, "channels of the skip connections");
  reader.Read("levels", &options.levels, 2, 65536, "values of a sample");
  ReadTrainingOptions(reader, &training);
  reader.Finish();

  NetworkBuilder net("wavenet");
  Value x;
  {
    const auto scope = net.Layer("input");
    const Value audio = net.Input("audio", DType::kF32, {options.batch, options.levels, 1, options.samples});
    x = BiasedConv(net, "causal", Delay(net, audio, 1), options.channels, kFilterWidth, 1);
  }
  Value skip;
  for (std::int64_t stack = 0; stack < options.stacks; ++stack) {
    for (std::int64_t layer = 0; layer < options.layers; ++layer) {
      const auto scope = net.Layer(fmt::format("stack{}_layer{}", stack, layer));
      const bool last = stack + 1 == options.stacks && layer + 1 == options.layers;
      x = ResidualLayer(net, x, std::int64_t{1} << layer, options, last, &skip);
    }
  }
  Value logits;
  {
    const auto scope = net.Layer("output");
    const Value hidden = BiasedConv(net, "hidden", Unary(net, "relu", skip, "relu1"), options.skip_channels, 1, 1);
    const Value scores = BiasedConv(net, "scores", Unary(net, "relu", hidden, "relu2"), options.levels, 1, 1);
    logits = Reshape(net, Transpose(net, scores, {0, 2, 3, 1}), {options.batch * options.samples, options.levels});
  }
  const auto scope = net.Layer("loss");
  const Value labels = net.Input("labels", DType::kI32, {options.batch * options.samples});
  const Value loss = Reduce(net, "reduce_mean", SoftmaxCrossEntropy(net, logits, labels), {0});
  return BuildTrainingGraph(net, loss, training);
}

}  // namespace emplace::datasets
