#include "datasets/families/enas_macro.h"

#include <fmt/format.h>

#include <cmath>

#include "datasets/families/families.h"
#include "datasets/image_blocks.h"
#include "datasets/training.h"
#include "sim/base/check.h"

namespace emplace::datasets {
namespace {

constexpr BatchNormOptions kNorm = {.scale = true, .average_rate = 0.1};
constexpr std::int64_t kFilters = 36;
constexpr std::size_t kChannels = 1;
constexpr ImageOptions kImages = {.batch = 0, .image_size = 32, .classes = 10};
// All layers are halved in size behind layers 3 and 7, counted from 0.
constexpr std::size_t kReductionEvery = EnasMacroNetwork::kLayers / 3;

Value Operation(NetworkBuilder& net, std::string_view kind, Value x, std::int64_t filters) {
  x = ReluConvBatchNorm(net, "before", x, {filters, {1, 1}, kSame}, kNorm);
  const auto scope = net.Within(kind);
  const std::int64_t size = kind.back() - '0';
  if (kind.starts_with("conv")) return ReluConvBatchNorm(net, "conv", x, {filters, {size, size}, kSame}, kNorm);
  if (kind.starts_with("sep")) return SeparableConv(net, "sep", x, {filters, {size, size}, kSame}, 1, kNorm);
  return kind.starts_with("avg") ? AvgPool(net, x, {size, size}, kSame) : MaxPool(net, x, {size, size}, kSame);
}

Value Stem(NetworkBuilder& net, Value images) {
  const auto scope = net.Layer("stem");
  return ConvBatchNorm(net, "conv", images, {kFilters, {3, 3}, kSame}, kNorm);
}

}  // namespace

EnasMacroNetwork EnasMacroNetwork::Draw(Rng& rng) {
  EnasMacroNetwork network;
  for (std::size_t l = 0; l < kLayers; ++l) {
    Layer layer;
    layer.operation = rng.Below(kOperations.size());
    for (std::size_t earlier = 0; earlier < l; ++earlier) layer.skips.push_back(rng.Below(2) == 1);
    network.layers.push_back(std::move(layer));
  }
  return network;
}

std::string EnasMacroNetwork::Text() const {
  std::string text;
  for (const Layer& layer : layers) {
    text.append(text.empty() ? "" : " ").append(kOperations[layer.operation]);
    for (std::size_t earlier = 0; earlier < layer.skips.size(); ++earlier) {
      if (layer.skips[earlier]) text += fmt::format("+{}", earlier);
    }
  }
  return text;
}

double EnasMacroNetwork::SpaceSize() {
  return std::pow(static_cast<double>(kOperations.size()), kLayers) * std::exp2(kLayers * (kLayers - 1) / 2.0);
}

Graph BuildEnasMacro(std::string name, const EnasMacroNetwork& network, std::int64_t batch) {
  EMPLACE_CHECK_EQ(network.layers.size(), EnasMacroNetwork::kLayers);
  NetworkBuilder net(std::move(name));
  ImageOptions images = kImages;
  images.batch = batch;
  const ImageInputs inputs = AddImageInputs(net, images, /*smoothed_labels=*/false);
  Value x = Stem(net, inputs.images);
  std::int64_t filters = kFilters;
  std::vector<Value> outputs;
  for (std::size_t l = 0; l < network.layers.size(); ++l) {
    if (l > 0 && l % kReductionEvery == 0) {
      filters *= 2;
      const auto scope = net.Layer(fmt::format("reduction{}", l / kReductionEvery));
      for (std::size_t earlier = 0; earlier < outputs.size(); ++earlier) {
        // Outputs that no later layer joins would be unused.
        bool joined = earlier + 1 == l;
        for (std::size_t later = l; later < network.layers.size(); ++later) {
          joined = joined || network.layers[later].skips[earlier];
        }
        if (joined) {
          outputs[earlier] =
              FactorizedReduction(net, fmt::format("layer{}", earlier), outputs[earlier], filters, kNorm);
        }
      }
      x = outputs.back();
    }
    const auto scope = net.Layer(fmt::format("layer{}", l));
    const EnasMacroNetwork::Layer& layer = network.layers[l];
    std::vector<Value> joined = {Operation(net, EnasMacroNetwork::kOperations[layer.operation], x, filters)};
    for (std::size_t earlier = 0; earlier < l; ++earlier) {
      if (layer.skips[earlier]) joined.push_back(outputs[earlier]);
    }
    x = joined.front();
    if (joined.size() > 1) {
      x = ReluConvBatchNorm(net, "skip", Concat(net, joined, kChannels), {filters, {1, 1}, kSame}, kNorm);
    }
    outputs.push_back(x);
  }
  Value losses;
  {
    const auto scope = net.Layer("logits");
    losses = ClassifierLoss(net, Unary(net, "relu", x), inputs.labels, images.classes, /*dropout=*/true);
  }
  const auto scope = net.Layer("loss");
  return BuildTrainingGraph(net, Reduce(net, "reduce_mean", losses, {0}), {.optimizer = "momentum"});
}

Graph MakeCifar10Member(Rng& rng, std::string name, std::vector<std::pair<std::string, std::string>>* drawn) {
  const std::int64_t batch = rng.Between(240, 360);
  const EnasMacroNetwork network = EnasMacroNetwork::Draw(rng);
  *drawn = {{"batch", std::to_string(batch)}, {"layers", network.Text()}};
  return BuildEnasMacro(std::move(name), network, batch);
}

}  // namespace emplace::datasets
