#include "agents/nn/mlp.h"

#include <fmt/format.h>

#include <algorithm>

namespace emplace::agents {

Mlp::Mlp(ParameterSet& parameters, std::string_view name, const std::vector<std::size_t>& widths, bool relu_last) {
  std::size_t widest = 0;
  for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
    Layer layer;
    layer.in = widths[i];
    layer.out = widths[i + 1];
    layer.relu = relu_last || i + 2 < widths.size();
    const std::size_t weight = parameters.Add(fmt::format("{}.{}.weight", name, i), layer.in, layer.out, false);
    const std::size_t bias = parameters.Add(fmt::format("{}.{}.bias", name, i), 1, layer.out, true);
    layer.weight_offset = parameters.parameters()[weight].offset;
    layer.bias_offset = parameters.parameters()[bias].offset;
    layer.weight.resize(layer.in * Padded(layer.out));
    layer.transposed.resize(layer.out * Padded(layer.in));
    layer.bias.resize(Padded(layer.out));
    widest = std::max(widest, Padded(layer.in));
    layers_.push_back(std::move(layer));
  }
  zeros_.resize(widest);
}

void Mlp::Pack(std::span<const float> values) {
  for (Layer& layer : layers_) {
    for (std::size_t i = 0; i < layer.in; ++i) {
      for (std::size_t j = 0; j < layer.out; ++j) {
        const float value = values[layer.weight_offset + i * layer.out + j];
        layer.weight[i * Padded(layer.out) + j] = value;
        layer.transposed[j * Padded(layer.in) + i] = value;
      }
    }
    std::copy_n(values.begin() + static_cast<std::ptrdiff_t>(layer.bias_offset), layer.out, layer.bias.begin());
  }
}

void Mlp::Prepare(std::size_t rows, bool backward, MlpCache* cache) const {
  cache->outputs.resize(layers_.size());
  cache->gradients.resize(layers_.size());
  cache->layers.clear();
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    Matrix& output = cache->outputs[i];
    output.Resize(rows, layer.out);
    if (backward) cache->gradients[i].Resize(rows, layer.out);
    cache->layers.push_back({.w = layer.weight.data(),
                             .bias = layer.bias.data(),
                             .in = layer.in,
                             .out = layer.out,
                             .relu = layer.relu,
                             .y = output.row(0),
                             .y_stride = output.stride()});
  }
}

void Mlp::Forward(const Matrix& x, std::size_t begin, std::size_t end, MlpCache* cache) const {
  if (begin == end) return;
  AffineLayers(x.row(0), x.stride(), begin, end, cache->layers);
}

void Mlp::Backward(std::size_t begin, std::size_t end, MlpCache* cache, Matrix* dx) const {
  if (begin == end) return;
  for (std::size_t i = layers_.size(); i-- > 0;) {
    const Layer& layer = layers_[i];
    Matrix& gradient = cache->gradients[i];
    if (layer.relu && i + 1 == layers_.size()) {
      MaskByRelu(cache->outputs[i].row(begin), (end - begin) * gradient.stride(), gradient.row(begin));
    }
    Matrix* const before = i > 0 ? &cache->gradients[i - 1] : dx;
    if (before == nullptr) continue;
    const float* const mask = i > 0 && layers_[i - 1].relu ? cache->outputs[i - 1].row(begin) : nullptr;
    MaskedAffine(gradient.row(begin), gradient.stride(), end - begin, layer.out, layer.transposed.data(), zeros_.data(),
                 layer.in, mask, before->row(begin), before->stride());
  }
}

void Mlp::AddGradients(const Matrix& x, std::size_t begin, std::size_t end, const MlpCache& cache,
                       std::span<float> gradients) {
  if (begin == end) return;
  const Matrix* input = &x;
  for (std::size_t i = 0; i < layers_.size(); ++i) {
    const Layer& layer = layers_[i];
    const Matrix& gradient = cache.gradients[i];
    const std::size_t padded = Padded(layer.out);
    scratch_.assign((layer.in + 1) * padded, 0.0F);
    AddOuterProducts(input->row(begin), input->stride(), gradient.row(begin), gradient.stride(), end - begin, layer.in,
                     layer.out, scratch_.data());
    float* const bias = scratch_.data() + layer.in * padded;
    AddRows(gradient.row(begin), gradient.stride(), end - begin, padded, bias);
    for (std::size_t k = 0; k < layer.in; ++k) {
      AddScaled(scratch_.data() + k * padded, 1, layer.out, gradients.data() + layer.weight_offset + k * layer.out);
    }
    AddScaled(bias, 1, layer.out, gradients.data() + layer.bias_offset);
    input = &cache.outputs[i];
  }
}

}  // namespace emplace::agents
