#include "agents/nn/p_gnn.h"

#include <algorithm>
#include <cmath>

namespace emplace::agents {
namespace {

// `size` distinct random nodes of n.
std::vector<std::uint32_t> DrawSet(std::size_t n, std::size_t size, Rng& rng) {
  std::vector<std::uint32_t> all(n);
  for (std::size_t i = 0; i < n; ++i) all[i] = static_cast<std::uint32_t>(i);
  for (std::size_t i = 0; i < size; ++i) std::swap(all[i], all[i + rng.Below(n - i)]);
  all.resize(size);
  return all;
}

// Draws max(1, floor(copies * num_sizes)) anchor sets of each of the sizes n / 2^(i + shift), i = 0 .. num_sizes - 1.
// `relate(node, anchor, set_size, &anchors)` decides whether to add an anchor within reach of a node.
template <typename Relate>
void DrawAnchors(const std::vector<std::uint8_t>& distances, std::size_t n, std::size_t num_sizes, std::size_t shift,
                 double copies, Rng& rng, const Relate& relate, GraphSample* sample) {
  const auto sets = std::max<std::size_t>(1, static_cast<std::size_t>(copies * static_cast<double>(num_sizes)));
  for (std::size_t i = 0; i < num_sizes; ++i) {
    for (std::size_t copy = 0; copy < sets; ++copy) {
      const std::vector<std::uint32_t> set = DrawSet(n, n >> (i + shift), rng);
      ++sample->num_sets;
      for (std::size_t node = 0; node < n; ++node) {
        std::vector<GraphSample::Anchor> anchors;
        for (const std::uint32_t anchor : set) {
          const std::uint8_t distance = distances[node * n + anchor];
          if (distance == Topology::kFar) continue;
          relate(node, GraphSample::Anchor{.node = anchor, .weight = 1 / static_cast<float>(distance + 1)}, set.size(),
                 &anchors);
        }
        sample->anchors.Append(anchors);
      }
    }
  }
}

}  // namespace

std::vector<float> PooledShares(std::size_t rows, std::size_t width) {
  const std::size_t window = std::min(width / 2 + 1, rows);
  const std::size_t windows = rows - window + 1;
  std::vector<float> shares(rows);
  for (std::size_t w = 0; w < windows; ++w) {
    for (std::size_t r = w; r < w + window; ++r) shares[r] += 1 / static_cast<float>(window * windows);
  }
  return shares;
}

PGnnCode::PGnnCode(ParameterSet& parameters, const GraphSageOptions& base, const PGnnOptions& options)
    : options_(options),
      base_(parameters, base),
      shares_(PooledShares(base_.rows_per_node(), base.features)),
      position_(parameters, "position", {base.features, base.features, base.features}, false) {}

GraphSample PGnnCode::Draw(const Topology& topology, Rng& rng) const {
  GraphSample sample = base_.Draw(topology, rng);
  const std::size_t n = topology.num_nodes();
  const auto sizes = n == 0 ? 0 : static_cast<std::size_t>(std::log(static_cast<double>(n)));
  const auto relate = [this](std::size_t node, GraphSample::Anchor anchor, std::size_t set_size,
                             std::vector<GraphSample::Anchor>* anchors) {
    if (anchor.node == node) return;
    if (options_.mean_anchors) {
      anchor.weight /= static_cast<float>(set_size);
      anchors->push_back(anchor);
    } else if (anchors->empty() || anchor.weight < anchors->front().weight) {
      *anchors = {anchor};
    }
  };
  DrawAnchors(topology.Distances(options_.cutoff, /*directed=*/true), n, sizes, options_.exponent, options_.copies, rng,
              relate, &sample);
  return sample;
}

void PGnnCode::Pack(std::span<const float> values) {
  base_.Pack(values);
  position_.Pack(values);
}

const Matrix& PGnnCode::Forward(const StateBatch& states, bool backward) {
  const Matrix& base = base_.Forward(states, backward);
  const std::size_t batch = states.batch();
  const std::size_t nodes = states.num_nodes();
  const std::size_t rows = nodes * batch;
  const std::size_t width = out();
  pooled_.Resize(rows, width);
  PoolRows(base, shares_, &pooled_);
  related_.Resize(rows, width);
  const std::size_t sets = states.sample->num_sets;
  SumRelated(pooled_, batch, states.sample->anchors, sets, static_cast<float>(2 * sets), &related_);
  position_.Prepare(rows, backward, &cache_);
  position_.Forward(related_, 0, rows, &cache_);
  return cache_.result();
}

void PGnnCode::Backward(const StateBatch& states, Matrix& d_out, std::span<float> gradients) {
  const std::size_t batch = states.batch();
  const std::size_t nodes = states.num_nodes();
  const std::size_t rows = nodes * batch;
  const std::size_t width = out();
  cache_.result_gradient() = d_out;
  d_related_.Resize(rows, width);
  position_.Backward(0, rows, &cache_, &d_related_);
  position_.AddGradients(related_, 0, rows, cache_, gradients);
  d_pooled_.Reset(rows, width);
  const GraphSample& sample = *states.sample;
  for (std::size_t i = 0; i < sample.anchors.size(); ++i) {
    const std::size_t node = i % nodes;
    for (const GraphSample::Anchor& anchor : sample.anchors[i]) {
      const float share = anchor.weight / static_cast<float>(2 * sample.num_sets);
      for (std::size_t b = 0; b < batch; ++b) {
        const float* const change = d_related_.row(node * batch + b);
        AddScaledLanes(change, share, d_pooled_.stride(), d_pooled_.row(node * batch + b));
        AddScaledLanes(change, share, d_pooled_.stride(), d_pooled_.row(anchor.node * batch + b));
      }
    }
  }
  d_base_.Reset(rows * shares_.size(), width);
  for (std::size_t row = 0; row < rows; ++row) {
    for (std::size_t r = 0; r < shares_.size(); ++r) {
      AddScaledLanes(d_pooled_.row(row), shares_[r], d_base_.stride(), d_base_.row(row * shares_.size() + r));
    }
  }
  base_.Backward(states, d_base_, gradients);
}

PGnnOriginal::PGnnOriginal(ParameterSet& parameters, const GraphSageOptions& base, const PGnnOptions& options)
    : options_(options),
      base_(parameters, base),
      message_(parameters, "message", {2 * base.features, base.features}, true) {}

GraphSample PGnnOriginal::Draw(const Topology& topology, Rng& rng) const {
  GraphSample sample = base_.Draw(topology, rng);
  const std::size_t n = topology.num_nodes();
  const auto sizes = n == 0 ? 0 : static_cast<std::size_t>(std::log2(static_cast<double>(n)));
  const auto relate = [](std::size_t, const GraphSample::Anchor& anchor, std::size_t,
                         std::vector<GraphSample::Anchor>* anchors) {
    if (anchors->empty() || anchor.weight > anchors->front().weight) *anchors = {anchor};
  };
  DrawAnchors(topology.Distances(options_.cutoff, /*directed=*/false), n, sizes, 1, options_.copies, rng, relate,
              &sample);
  return sample;
}

void PGnnOriginal::Pack(std::span<const float> values) {
  base_.Pack(values);
  message_.Pack(values);
}

const Matrix& PGnnOriginal::Forward(const StateBatch& states, bool backward) {
  const Matrix& base = base_.Forward(states, backward);
  const GraphSample& sample = *states.sample;
  const std::size_t batch = states.batch();
  const std::size_t nodes = states.num_nodes();
  const std::size_t width = out();
  out_.Reset(nodes * batch, width);
  // The messages of a set are consecutive rows, in the order of the nodes. Without a backward pass each set overwrites
  // the previous one, so that the rows stay in the cache.
  const std::size_t of_set = nodes * batch;
  const std::size_t rows = backward ? sample.num_sets * of_set : of_set;
  input_.Resize(rows, 2 * width);
  message_.Prepare(rows, backward, &cache_);
  const float share = sample.num_sets == 0 ? 0.0F : 1 / static_cast<float>(sample.num_sets);
  for (std::size_t set = 0; set < sample.num_sets; ++set) {
    const std::size_t row = backward ? set * of_set : 0;
    JoinScaled(base, batch, sample.anchors, set * nodes, nodes, row, &input_);
    message_.Forward(input_, row, row + of_set, &cache_);
    AddScaled(cache_.result().row(row), share, of_set * out_.stride(), out_.row(0));
  }
  return out_;
}

void PGnnOriginal::Backward(const StateBatch& states, Matrix& d_out, std::span<float> gradients) {
  const GraphSample& sample = *states.sample;
  const std::size_t batch = states.batch();
  const std::size_t nodes = states.num_nodes();
  const std::size_t width = out();
  const std::size_t rows = sample.anchors.size() * batch;
  const float share = sample.num_sets == 0 ? 0.0F : 1 / static_cast<float>(sample.num_sets);
  Matrix& d_messages = cache_.result_gradient();
  std::fill_n(d_messages.row(0), rows * d_messages.stride(), 0.0F);
  for (std::size_t set = 0; set < sample.num_sets; ++set) {
    const std::size_t of_set = nodes * batch;
    AddScaled(d_out.row(0), share, of_set * d_out.stride(), d_messages.row(set * of_set));
  }
  d_input_.Resize(rows, 2 * width);
  message_.Backward(0, rows, &cache_, &d_input_);
  message_.AddGradients(input_, 0, rows, cache_, gradients);
  d_base_.Reset(nodes * batch, width);
  for (std::size_t i = 0; i < sample.anchors.size(); ++i) {
    for (std::size_t b = 0; b < batch; ++b) {
      const float* const change = d_input_.row(i * batch + b);
      for (const GraphSample::Anchor& anchor : sample.anchors[i]) {
        AddScaled(change, anchor.weight, width, d_base_.row(anchor.node * batch + b));
      }
      AddScaled(change + width, 1, width, d_base_.row(i % nodes * batch + b));
    }
  }
  base_.Backward(states, d_base_, gradients);
}

}  // namespace emplace::agents
