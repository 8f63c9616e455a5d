// The LibTorch part of autograd.h.

#include <torch/types.h>

#include <algorithm>
#include <map>
#include <vector>

#include "agents/nn/autograd.h"
#include "agents/nn/dropout.h"
#include "agents/nn/torch/makers.h"
#include "sim/base/check.h"

namespace emplace::agents {
namespace {

using Array = torch::Tensor;  // the project's Tensor is a different type
using torch::indexing::Slice;

constexpr float kLeastNorm = 1e-6F;

// The root of sums of squares, at least kLeastNorm. The sum is clamped before the root, whose derivative at 0 is
// infinite: rows of zeros would otherwise have NaN gradients.
Array Norm(const Array& squares) { return squares.clamp_min(kLeastNorm * kLeastNorm).sqrt(); }

Array Indices(const std::vector<std::int64_t>& values, torch::Device device) {
  return torch::tensor(values, torch::kInt64).to(device);
}

// Rows to add to sums: sums[to[i]] += scale[i] * rows[from[i]].
struct Edges {
  std::vector<std::int64_t> from;
  std::vector<std::int64_t> to;
  std::vector<float> scale;
};

Array SumAlong(const Edges& edges, const Array& rows, std::int64_t num_sums) {
  auto shape = rows.sizes().vec();
  shape[0] = num_sums;
  const Array sums = torch::zeros(shape, rows.options());
  if (edges.from.empty()) return sums;
  Array parts = rows.index_select(0, Indices(edges.from, rows.device()));
  std::vector<std::int64_t> broadcast(shape.size(), 1);
  broadcast[0] = static_cast<std::int64_t>(edges.scale.size());
  parts = parts * torch::tensor(edges.scale).to(rows.device()).view(broadcast);
  return sums.index_add(0, Indices(edges.to, rows.device()), parts);
}

Edges MeansOf(const NodeLists& lists) {
  Edges edges;
  for (std::size_t node = 0; node < lists.size(); ++node) {
    for (const std::uint32_t other : lists[node]) {
      edges.from.push_back(other);
      edges.to.push_back(static_cast<std::int64_t>(node));
      edges.scale.push_back(1 / static_cast<float>(lists[node].size()));
    }
  }
  return edges;
}

Array MaximaOf(const NodeLists& lists, const Array& rows) {
  std::vector<Array> maxima;
  for (std::size_t node = 0; node < lists.size(); ++node) {
    const std::vector<std::int64_t> list(lists[node].begin(), lists[node].end());
    maxima.push_back(list.empty() ? torch::zeros_like(rows[0])
                                  : std::get<0>(rows.index_select(0, Indices(list, rows.device())).max(0)));
  }
  return torch::stack(maxima);
}

// The network as a function of its weights and of a batch of states. Tensors are [nodes, batch, ..., width].
class Definition {
 public:
  Definition(const NetworkOptions& options, const std::map<std::string, Array>& weights, const StateBatch& states,
             torch::Device device)
      : options_(options), weights_(weights), states_(states), device_(device) {}

  Array Logits(const Array& features) const {
    Array embeddings;
    switch (options_.embedding) {
      case Embedding::kPlaceto:
        embeddings = Placeto(features);
        break;
      case Embedding::kGraphSage:
        embeddings = options_.thesis_code ? SageCode(features) : SageText(features);
        break;
      case Embedding::kPGnn:
        embeddings = options_.thesis_code ? PGnnOfCode(features) : PGnnOfAuthors(features);
        break;
    }
    return options_.sum_head ? Sum(embeddings) : Related(embeddings);
  }

 private:
  Array Mlp(const std::string& name, Array x, bool relu_last) const {
    for (int i = 0;; ++i) {
      const auto weight = weights_.find(name + "." + std::to_string(i) + ".weight");
      if (weight == weights_.end()) return relu_last ? torch::relu(x) : x;
      if (i > 0) x = torch::relu(x);
      x = torch::matmul(x, weight->second) + weights_.at(name + "." + std::to_string(i) + ".bias");
    }
  }

  // Level by level, from the messages of all earlier levels.
  Array Sweep(const std::string& name, const Array& x, const Topology::Levels& levels, const NodeLists& heard) const {
    std::vector<Array> embeddings;
    std::vector<Array> messages;
    for (std::size_t l = 0; l < levels.size(); ++l) {
      std::vector<std::int64_t> nodes;
      Edges edges;
      for (std::size_t p = levels.begin[l]; p < levels.begin[l + 1]; ++p) {
        for (const std::uint32_t other : heard[levels.order[p]]) {
          edges.from.push_back(levels.position[other]);
          edges.to.push_back(static_cast<std::int64_t>(nodes.size()));
          edges.scale.push_back(1);
        }
        nodes.push_back(levels.order[p]);
      }
      Array e = x.index_select(0, Indices(nodes, device_));
      if (l > 0) {
        const Array sums = SumAlong(edges, torch::cat(messages), static_cast<std::int64_t>(nodes.size()));
        e = e + Mlp(name + ".aggregate", sums, true);
      }
      embeddings.push_back(e);
      messages.push_back(Mlp(name + ".message", e, true));
    }
    const std::vector<std::int64_t> back(levels.position.begin(), levels.position.end());
    return torch::cat(embeddings).index_select(0, Indices(back, device_));
  }

  Array Rounds(const std::string& name, const Array& x, const NodeLists& heard) const {
    Edges edges;
    std::vector<float> hears(heard.size());
    for (std::size_t node = 0; node < heard.size(); ++node) {
      hears[node] = heard[node].empty() ? 0.0F : 1.0F;
      for (const std::uint32_t other : heard[node]) {
        edges.from.push_back(other);
        edges.to.push_back(static_cast<std::int64_t>(node));
        edges.scale.push_back(1);
      }
    }
    const Array mask = torch::tensor(hears).to(device_).view({-1, 1, 1});
    Array e = x;
    for (std::size_t k = 0; k < options_.rounds; ++k) {
      const Array sums = SumAlong(edges, Mlp(name + ".message", e, true), x.size(0));
      e = x + mask * Mlp(name + ".aggregate", sums, true);
    }
    return e;
  }

  Array Placeto(const Array& features) const {
    const Array x = Mlp("transform", features, false);
    const Topology& topology = *states_.topology;
    if (options_.rounds > 0) {
      return torch::cat({Rounds("forward", x, topology.predecessors()), Rounds("backward", x, topology.successors())},
                        -1);
    }
    return torch::cat({Sweep("forward", x, topology.forward(), topology.predecessors()),
                       Sweep("backward", x, topology.backward(), topology.successors())},
                      -1);
  }

  Array Heard(const Array& rows) const {
    const NodeLists& neighbours = states_.sample->neighbours;
    switch (options_.sage.aggregation) {
      case Aggregation::kMax:
        return MaximaOf(neighbours, rows);
      case Aggregation::kMin:
        return -MaximaOf(neighbours, -rows);
      case Aggregation::kSum: {
        Edges edges = MeansOf(neighbours);
        std::fill(edges.scale.begin(), edges.scale.end(), 1.0F);
        return SumAlong(edges, rows, rows.size(0));
      }
      default:
        return SumAlong(MeansOf(neighbours), rows, rows.size(0));
    }
  }

  Array SageText(const Array& features) const {
    const auto nodes = static_cast<std::size_t>(features.size(0));
    const auto batch = static_cast<std::size_t>(features.size(1));
    const auto width = static_cast<std::size_t>(features.size(2));
    Array h = Mlp("transform", features, false);
    for (std::size_t k = 0; k < options_.sage.hops; ++k) {
      h = Mlp("level" + std::to_string(k), torch::cat({h, Heard(h)}, -1), false);
      if (k + 1 == options_.sage.hops || states_.evaluating) continue;
      Array kept = torch::zeros({features.size(0), features.size(1), features.size(2)});
      std::vector<std::uint8_t> drawn(nodes * width);
      for (std::size_t b = 0; b < batch; ++b) {
        Rng rng = DropoutRng(states_.seeds[b], k);
        DrawKept(rng, options_.sage.dropout, drawn);
        kept.index_put_({Slice(), static_cast<std::int64_t>(b)},
                        torch::tensor(drawn).view({features.size(0), -1}).to(torch::kFloat));
      }
      h = h * kept.to(device_) / (1 - options_.sage.dropout);
    }
    return h / Norm(h.square().sum(-1, true));
  }

  // [nodes, batch, rows, width]
  Array SageCodeRows(const Array& features) const {
    const NodeLists& neighbours = states_.sample->neighbours;
    const auto nodes = features.size(0);
    const auto batch = features.size(1);
    const auto width = features.size(2);
    std::vector<float> hears;
    for (std::size_t node = 0; node < neighbours.size(); ++node) hears.push_back(neighbours[node].empty() ? 0 : 1);
    const Array mask = torch::tensor(hears).to(device_).view({-1, 1, 1, 1});
    Array t = Mlp("transform", features, false).unsqueeze(2);
    for (std::size_t i = 0; i <= options_.sage.hops; ++i) {
      const std::string name = "level" + std::to_string(i);
      const auto half = t.size(2);
      const Array columns = torch::cat({Heard(t).transpose(2, 3), t.transpose(2, 3)}, 3);
      const Array joined = Mlp(name, columns.reshape({nodes, batch, 2 * half, width}), false);
      const Array alone = torch::cat({torch::zeros_like(t), Mlp(name, t, false)}, 2);
      t = mask * joined + (1 - mask) * alone;
      Array kept = torch::zeros(t.sizes().vec());
      for (std::int64_t b = 0; b < batch; ++b) {
        Rng rng = DropoutRng(states_.seeds[static_cast<std::size_t>(b)], i);
        for (std::int64_t node = 0; node < nodes; ++node) {
          const std::int64_t computed = neighbours[static_cast<std::size_t>(node)].empty() ? half : 2 * half;
          std::vector<std::uint8_t> drawn(static_cast<std::size_t>(computed * width));
          DrawKept(rng, options_.sage.dropout, drawn);
          kept.index_put_({node, b, Slice(2 * half - computed)},
                          torch::tensor(drawn).view({computed, width}).to(torch::kFloat));
        }
      }
      t = t * kept.to(device_) / (1 - options_.sage.dropout);
    }
    return t / Norm(t.square().sum(std::vector<std::int64_t>{2, 3}, true));
  }
  Array SageCode(const Array& features) const { return SageCodeRows(features); }

  Array PGnnOfCode(const Array& features) const {
    const Array rows = SageCodeRows(features);
    const auto window = std::min<std::int64_t>(rows.size(3) / 2 + 1, rows.size(2));
    const Array pooled = rows.unfold(2, window, 1).mean(-1);  // [nodes, batch, windows, width]
    const GraphSample& sample = *states_.sample;
    const std::size_t nodes = states_.num_nodes();
    Array sum =
        torch::zeros({features.size(0), features.size(1), 2 * pooled.size(2), features.size(2)}, features.options());
    for (std::size_t set = 0; set < sample.num_sets; ++set) {
      Edges own;
      Edges anchors;
      for (std::size_t node = 0; node < nodes; ++node) {
        for (const GraphSample::Anchor& anchor : sample.anchors[set * nodes + node]) {
          own.from.push_back(static_cast<std::int64_t>(node));
          anchors.from.push_back(anchor.node);
          for (Edges* const edges : {&own, &anchors}) {
            edges->to.push_back(static_cast<std::int64_t>(node));
            edges->scale.push_back(anchor.weight);
          }
        }
      }
      sum = sum + torch::cat({SumAlong(own, pooled, pooled.size(0)), SumAlong(anchors, pooled, pooled.size(0))}, 2);
    }
    const Array mean = sample.num_sets == 0 ? sum.mean(2) : (sum / static_cast<double>(sample.num_sets)).mean(2);
    return Mlp("position", mean, false);
  }

  Array PGnnOfAuthors(const Array& features) const {
    const Array h = SageText(features);
    const GraphSample& sample = *states_.sample;
    const std::size_t nodes = states_.num_nodes();
    Array sum = torch::zeros_like(h);
    for (std::size_t set = 0; set < sample.num_sets; ++set) {
      Edges anchors;
      for (std::size_t node = 0; node < nodes; ++node) {
        for (const GraphSample::Anchor& anchor : sample.anchors[set * nodes + node]) {
          anchors.from.push_back(anchor.node);
          anchors.to.push_back(static_cast<std::int64_t>(node));
          anchors.scale.push_back(anchor.weight);
        }
      }
      sum = sum + Mlp("message", torch::cat({SumAlong(anchors, h, h.size(0)), h}, -1), true);
    }
    return sample.num_sets == 0 ? sum : sum / static_cast<double>(sample.num_sets);
  }

  Array Related(const Array& embeddings) const {
    const std::size_t nodes = states_.num_nodes();
    const std::size_t batch = states_.batch();
    std::vector<Array> joined;
    for (const auto& [name, relation] :
         {std::pair("parents", Relation::kParent), {"children", Relation::kChild}, {"parallel", Relation::kParallel}}) {
      std::vector<float> mask(nodes * batch);
      for (std::size_t node = 0; node < nodes; ++node) {
        for (std::size_t b = 0; b < batch; ++b) {
          mask[node * batch + b] = states_.topology->relation(states_.currents[b], node) == relation ? 1.0F : 0.0F;
        }
      }
      const Array masks = torch::tensor(mask).to(device_).view({embeddings.size(0), embeddings.size(1), 1});
      Array sum = (Mlp(std::string(name) + ".message", embeddings, true) * masks).sum(0);
      if (options_.average) sum = sum / masks.sum(0).clamp_min(1);
      joined.push_back(Mlp(std::string(name) + ".aggregate", sum, true));
    }
    std::vector<Array> own;
    for (std::size_t b = 0; b < batch; ++b) {
      own.push_back(embeddings[states_.currents[b]][static_cast<std::int64_t>(b)]);
    }
    joined.push_back(torch::stack(own));
    return Mlp("classifier", torch::cat(joined, -1), false);
  }

  Array Sum(const Array& embeddings) const {
    Array rows = embeddings;
    if (rows.dim() == 3) rows = rows.unsqueeze(2);
    Array sum = Mlp("all.message", rows, true).sum(std::vector<std::int64_t>{0, 2});
    if (options_.average) sum = sum / static_cast<double>(rows.size(0) * rows.size(2));
    return Mlp("classifier", Mlp("all.aggregate", sum, true), false);
  }

  const NetworkOptions& options_;
  const std::map<std::string, Array>& weights_;
  const StateBatch& states_;
  torch::Device device_;
};

class TorchNetwork : public AutogradNetwork {
 public:
  TorchNetwork(const Network& network, const std::string& device)
      : network_(network), device_(OpenTorchDevice(device)), weights_(network.parameters(), device_) {}

  const Matrix& Forward(const StateBatch& states) override {
    weights_.Refresh();
    std::vector<float> features;
    for (std::size_t row = 0; row < states.features.rows(); ++row) {
      const auto values = states.features.values(row);
      features.insert(features.end(), values.begin(), values.end());
    }
    const Array x = torch::tensor(features)
                        .view({static_cast<std::int64_t>(states.num_nodes()), static_cast<std::int64_t>(states.batch()),
                               static_cast<std::int64_t>(states.features.width())})
                        .to(device_);
    logits_ = Definition(network_.options(), weights_.tensors(), states, device_).Logits(x);
    FromTorch(logits_, &result_);
    return result_;
  }

  void Backward(const Matrix& d_logits, std::span<float> gradients) override {
    std::vector<float> change;
    for (std::size_t b = 0; b < d_logits.rows(); ++b) {
      change.insert(change.end(), d_logits.values(b).begin(), d_logits.values(b).end());
    }
    logits_.backward(torch::tensor(change).view(logits_.sizes()).to(device_));
    weights_.AddGradients(gradients);
  }

 private:
  const Network& network_;
  torch::Device device_;
  TorchWeights weights_;
  Array logits_;
  Matrix result_;
};

}  // namespace

AutogradNetwork* MakeTorchAutograd(const Network& network, const std::string& device) {
  return new TorchNetwork(network, device);
}

}  // namespace emplace::agents
