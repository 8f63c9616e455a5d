// The LibTorch part of graph_transformer.h.

#include <torch/utils.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "agents/nn/torch/attention.h"
#include "agents/nn/torch/makers.h"

namespace emplace::agents {
namespace {

using Array = torch::Tensor;  // the project's Tensor is a different type
using torch::indexing::None;
using torch::indexing::Slice;

// Without gradients, a layer processes this many rows at a time, so that its results stay in the caches.
constexpr std::int64_t kBlockRows = 4096;
// Rows of which attention computes scores together.
constexpr std::int64_t kAttentionRows = 1024;

Array Indices(const std::vector<std::uint32_t>& values, torch::Device device) {
  return torch::tensor(std::vector<std::int64_t>(values.begin(), values.end()), torch::kInt64).to(device);
}

class TorchGraphTransformer : public GraphTransformer {
 public:
  TorchGraphTransformer(const GraphTransformerOptions& options, const ParameterSet& parameters,
                        const std::string& device)
      : options_(options), device_(OpenTorchDevice(device)), weights_(parameters, device_) {}

  const Matrix& Forward(const GraphRows& graph, bool backward) override {
    const torch::AutoGradMode gradients(backward);
    weights_.Refresh();
    std::optional<GraphTokens> every;
    if (!graph.tokens) every = FindTokens(graph, options_, /*merge=*/false);
    const GraphTokens& tokens = graph.tokens ? *graph.tokens : *every;
    const Array h = Neighbourly(tokens, Embed(graph, tokens)).index_select(0, Indices(tokens.classes, device_));
    const Array of_tokens = Affine("devices", Contextual(tokens, h));
    return logits_.Keep(of_tokens.index_select(0, Indices(tokens.token_of, device_)), backward);
  }

  void Backward(const Matrix& d_logits, std::span<float> gradients) override {
    logits_.Backward(d_logits, weights_, gradients);
  }

 private:
  // x NAME.weight + NAME.bias, in one pass over the result.
  Array Affine(const std::string& name, const Array& x) const {
    return torch::addmm(weights_[name + ".bias"], x, weights_[name + ".weight"]);
  }

  Array Embed(const GraphRows& graph, const GraphTokens& tokens) const {
    std::vector<std::uint32_t> kinds;
    kinds.reserve(tokens.first.size());
    for (const std::uint32_t node : tokens.first) kinds.push_back(graph.kinds[node]);
    const Array kind = weights_["kinds"].index_select(0, Indices(kinds, device_));
    const Array numbers = ToTorch(graph.numbers, device_).index_select(0, Indices(tokens.first, device_));
    return Affine("input", torch::cat({kind, numbers}, 1)).relu_();
  }

  // [classes, most], the neighbours of each class, padded with the index of the row after the last class.
  Array NeighbourTable(const GraphTokens& tokens) const {
    const std::size_t classes = tokens.first.size();
    std::vector<std::int64_t> table(classes * options_.neighbours, static_cast<std::int64_t>(classes));
    for (std::size_t c = 0; c < classes; ++c) {
      const auto& list = tokens.neighbours[c];
      std::copy(list.begin(), list.end(), table.begin() + static_cast<std::ptrdiff_t>(c * options_.neighbours));
    }
    return torch::tensor(table, torch::kInt64).to(device_).view({-1, static_cast<std::int64_t>(options_.neighbours)});
  }

  // Applies `part` to blocks of at most kBlockRows rows, and concatenates the results. With gradients there is one
  // block.
  template <typename Part>
  static Array InBlocks(std::int64_t rows, const Part& part) {
    if (torch::GradMode::is_enabled() || rows <= kBlockRows) return part(Slice(0, rows));
    std::vector<Array> parts;
    for (std::int64_t first = 0; first < rows; first += kBlockRows) {
      parts.push_back(part(Slice(first, std::min(first + kBlockRows, rows))));
    }
    return torch::cat(parts);
  }

  Array Neighbourly(const GraphTokens& tokens, Array h) const {
    const Array table = NeighbourTable(tokens);
    const std::int64_t width = h.size(1);
    const auto with_none = [&](const Array& rows, double none) {
      return torch::cat({rows, torch::full({1, rows.size(1)}, none, rows.options())});
    };
    // [nodes of the table, most, width]
    const auto gather = [&](const Array& rows, const Array& of) {
      return rows.index_select(0, of.flatten()).view({of.size(0), of.size(1), rows.size(1)});
    };
    for (std::size_t l = 0; l < options_.layers; ++l) {
      const std::string name = "neighbours." + std::to_string(l);
      if (options_.neighbourhood == Neighbourhood::kGraphSage) {
        // A sigmoid is above 0, so rows of 0 are the maximum only if there is no neighbour.
        const Array said = Affine(name + ".pool", h).sigmoid_();
        const Array join =
            weights_[name + ".join.weight"];  // applied to a node's own vector, and then to the aggregated one
        h = InBlocks(h.size(0), [&](const Slice& rows) {
          const Array around = table.index({rows});
          const Array heard =
              device_.is_cpu() ? MaximumOfRows(said, around) : gather(with_none(said, 0), around).amax(1);
          const Array own = torch::addmm(weights_[name + ".join.bias"], h.index({rows}), join.narrow(0, 0, width));
          return torch::addmm(own, heard, join.narrow(0, width, width)).relu_();
        });
        continue;
      }
      const Array projected = h.matmul(weights_[name + ".project"]);
      const Array own = projected.matmul(weights_[name + ".own"]);      // [nodes, 1]
      const Array other = projected.matmul(weights_[name + ".other"]);  // [nodes, 1]
      const Array itself = torch::leaky_relu(own + other, 0.2);
      const Array around = torch::leaky_relu(own + gather(with_none(other, -INFINITY), table).squeeze(2), 0.2);
      const Array share = torch::softmax(torch::cat({itself, around}, 1), 1).unsqueeze(1);  // [nodes, 1, 1 + most]
      const Array all = torch::cat({projected.unsqueeze(1), gather(with_none(projected, 0), table)}, 1);
      h = torch::relu(share.matmul(all).squeeze(1));
    }
    return h;
  }

  Array Contextual(const GraphTokens& tokens, Array h) {
    if (options_.context == Context::kMlp) return Affine("mlp.1", Affine("mlp.0", h).relu_()).relu_();
    blocks_ = AttentionBlocks(tokens, kAttentionRows, device_);
    for (std::size_t l = 0; l < options_.attention_layers; ++l) {
      const std::string name = "attention." + std::to_string(l);
      const Array mixed =
          SegmentAttention(h, weights_[name + ".query"], weights_[name + ".key"], weights_[name + ".value"],
                           static_cast<std::int64_t>(options_.heads), blocks_);
      h = InBlocks(h.size(0), [&](const Slice& rows) {
        const Array sum = torch::addmm(h.index({rows}), mixed.index({rows}), weights_[name + ".result"]);
        const Array y = Normalize(name + ".first", sum);
        const Array inner = Affine(name + ".up", y).relu_();
        return Normalize(name + ".second", y + Affine(name + ".down", inner));
      });
    }
    return h;
  }

  Array Normalize(const std::string& name, const Array& x) const {
    return torch::layer_norm(x, {x.size(-1)}, weights_[name + ".gain"].view({-1}), weights_[name + ".bias"].view({-1}));
  }

  GraphTransformerOptions options_;
  torch::Device device_;
  TorchWeights weights_;
  std::vector<AttentionBlock> blocks_;  // blocks of the last Forward, for Backward
  TorchLogits logits_;
};

}  // namespace

GraphTransformer* MakeTorchGraphTransformer(const GraphTransformerOptions& options, const ParameterSet& parameters,
                                            const std::string& device) {
  return new TorchGraphTransformer(options, parameters, device);
}

}  // namespace emplace::agents
