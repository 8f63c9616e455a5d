// The LibTorch part of graph_transformer.h.

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "agents/nn/torch/makers.h"

namespace emplace::agents {
namespace {

using Array = torch::Tensor;  // the project's Tensor is a different type
using torch::indexing::None;
using torch::indexing::Slice;

// Without gradients, a layer processes this many rows at a time, so that its results stay in the caches.
constexpr std::int64_t kBlockRows = 4096;

class TorchGraphTransformer : public GraphTransformer {
 public:
  TorchGraphTransformer(const GraphTransformerOptions& options, const ParameterSet& parameters,
                        const std::string& device)
      : options_(options), device_(OpenTorchDevice(device)), weights_(parameters, device_) {}

  const Matrix& Forward(const GraphRows& graph, bool backward) override {
    const torch::AutoGradMode gradients(backward);
    weights_.Refresh();
    return logits_.Keep(weights_.Affine("devices", Contextual(Neighbourly(graph, Embed(graph)))), backward);
  }

  void Backward(const Matrix& d_logits, std::span<float> gradients) override {
    logits_.Backward(d_logits, weights_, gradients);
  }

 private:
  Array Embed(const GraphRows& graph) const {
    const std::vector<std::int64_t> kinds(graph.kinds.begin(), graph.kinds.end());
    const Array kind = weights_["kinds"].index_select(0, torch::tensor(kinds, torch::kInt64).to(device_));
    return torch::relu(weights_.Affine("input", torch::cat({kind, ToTorch(graph.numbers, device_)}, 1)));
  }

  // [nodes, most], the neighbours of each node, padded with the index of the row after the last node.
  Array NeighbourTable(const GraphRows& graph) const {
    const std::size_t nodes = graph.kinds.size();
    std::vector<std::int64_t> table(nodes * options_.neighbours, static_cast<std::int64_t>(nodes));
    for (std::size_t v = 0; v < nodes; ++v) {
      const auto& list = graph.neighbours[v];
      std::copy(list.begin(), list.end(), table.begin() + static_cast<std::ptrdiff_t>(v * options_.neighbours));
    }
    return torch::tensor(table, torch::kInt64).to(device_).view({-1, static_cast<std::int64_t>(options_.neighbours)});
  }

  // Applies `part` to blocks of `rows`, at most kBlockRows / `rows_each` each, and concatenates the results. With
  // gradients there is one block.
  template <typename Part>
  static Array InBlocks(std::int64_t rows, std::int64_t rows_each, const Part& part) {
    const std::int64_t most = torch::GradMode::is_enabled() ? rows : std::max<std::int64_t>(kBlockRows / rows_each, 1);
    if (rows <= most) return part(Slice(0, rows));
    std::vector<Array> parts;
    for (std::int64_t first = 0; first < rows; first += most) {
      parts.push_back(part(Slice(first, std::min(first + most, rows))));
    }
    return torch::cat(parts);
  }

  Array Neighbourly(const GraphRows& graph, Array h) const {
    const Array table = NeighbourTable(graph);
    const std::int64_t nodes = h.size(0);
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
        const Array pooled = with_none(torch::sigmoid(weights_.Affine(name + ".pool", h)), 0);
        h = InBlocks(nodes, 1, [&](const Slice& rows) {
          const Array heard = gather(pooled, table.index({rows})).amax(1);
          return torch::relu(weights_.Affine(name + ".join", torch::cat({h.index({rows}), heard}, 1)));
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

  Array Contextual(Array h) const {
    if (options_.context == Context::kMlp)
      return torch::relu(weights_.Affine("mlp.1", torch::relu(weights_.Affine("mlp.0", h))));
    const std::int64_t nodes = h.size(0);
    const auto segment = std::min(static_cast<std::int64_t>(options_.segment), std::max<std::int64_t>(nodes, 1));
    const std::int64_t segments = (nodes + segment - 1) / segment;
    const std::int64_t missing = segments * segment - nodes;
    h = torch::cat({h, torch::zeros({missing, h.size(1)}, h.options())}).view({segments, segment, h.size(1)});
    // Masked positions of a segment: padding after the last node, and the segment before the first.
    Array absent = torch::zeros({segments, 1, 1, 2 * segment}, torch::TensorOptions(torch::kBool).device(device_));
    absent.index_put_({0, Slice(), Slice(), Slice(None, segment)}, true);
    if (missing > 0) absent.index_put_({segments - 1, Slice(), Slice(), Slice(2 * segment - missing, None)}, true);
    for (std::size_t l = 0; l < options_.attention_layers; ++l) {
      const Array before = torch::cat(
          {torch::zeros({1, segment, h.size(2)}, h.options()), h.detach().index({Slice(None, segments - 1)})});
      h = InBlocks(segments, segment, [&](const Slice& part) {
        return Attend("attention." + std::to_string(l), before.index({part}), h.index({part}), absent.index({part}));
      });
    }
    return h.view({segments * segment, h.size(2)}).index({Slice(None, nodes)});
  }

  // Processes many segments at once. The memory of a segment, `before`, is this layer's input from the previous
  // segment.
  Array Attend(const std::string& name, const Array& before, const Array& h, const Array& absent) const {
    const std::int64_t segments = h.size(0);
    const std::int64_t segment = h.size(1);
    const auto heads = static_cast<std::int64_t>(options_.heads);
    const auto head_width = static_cast<std::int64_t>(options_.head_width);
    const Array seen = torch::cat({before, h}, 1);
    const auto split = [&](const Array& rows, const char* part) {
      return rows.matmul(weights_[name + part]).view({segments, rows.size(1), heads, head_width}).transpose(1, 2);
    };
    Array scores =
        split(h, ".query").matmul(split(seen, ".key").transpose(2, 3)) / std::sqrt(static_cast<double>(head_width));
    scores = torch::softmax(scores.masked_fill(absent, -INFINITY), 3);
    const Array mixed = scores.matmul(split(seen, ".value")).transpose(1, 2).reshape({segments, segment, -1});
    const Array y = Normalize(name + ".first", h + mixed.matmul(weights_[name + ".result"]));
    return Normalize(name + ".second",
                     y + weights_.Affine(name + ".down", torch::relu(weights_.Affine(name + ".up", y))));
  }

  Array Normalize(const std::string& name, const Array& x) const {
    return torch::layer_norm(x, {x.size(-1)}, weights_[name + ".gain"].view({-1}), weights_[name + ".bias"].view({-1}));
  }

  GraphTransformerOptions options_;
  torch::Device device_;
  TorchWeights weights_;
  TorchLogits logits_;
};

}  // namespace

GraphTransformer* MakeTorchGraphTransformer(const GraphTransformerOptions& options, const ParameterSet& parameters,
                                            const std::string& device) {
  return new TorchGraphTransformer(options, parameters, device);
}

}  // namespace emplace::agents
