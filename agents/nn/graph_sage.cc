#include "agents/nn/graph_sage.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>

#include "agents/nn/dropout.h"

namespace emplace::agents {
namespace {

// Avoids division by zero: a row of zeros is unchanged.
constexpr float kLeastNorm = 1e-6F;

std::vector<std::uint32_t> Neighbours(const Topology& topology, std::size_t node, bool both) {
  const auto successors = topology.successors()[node];
  std::vector<std::uint32_t> all(successors.begin(), successors.end());
  if (both) {
    const auto predecessors = topology.predecessors()[node];
    all.insert(all.end(), predecessors.begin(), predecessors.end());
  }
  return all;
}

// Whether a value is taken from one neighbour.
bool TakesOne(Aggregation aggregation) { return aggregation == Aggregation::kMax || aggregation == Aggregation::kMin; }
bool IsBeyond(Aggregation aggregation, float value, float taken) {
  return aggregation == Aggregation::kMax ? value > taken : value < taken;
}
// The factor of each neighbour in a mean or sum.
float ShareOf(Aggregation aggregation, std::size_t neighbours) {
  return aggregation == Aggregation::kSum ? 1 : 1 / static_cast<float>(neighbours);
}

// `wanted` random entries of `all`, in ascending order.
std::vector<std::uint32_t> Pick(std::vector<std::uint32_t> all, std::size_t wanted, Rng& rng) {
  rng.Shuffle(all);
  all.resize(std::min(wanted, all.size()));
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace

GraphSageText::GraphSageText(ParameterSet& parameters, const GraphSageOptions& options)
    : options_(options),
      transform_(parameters, "transform", {options.features, options.features, options.features}, false) {
  const std::size_t d = options.features;
  for (std::size_t k = 0; k < options.hops; ++k) {
    levels_.push_back({.net = Mlp(parameters, "level" + std::to_string(k), {2 * d, d, d}, false),
                       .input = {},
                       .cache = {},
                       .largest = {},
                       .kept = {},
                       .output = {}});
  }
}

GraphSample GraphSageText::Draw(const Topology& topology, Rng& rng) const {
  GraphSample sample;
  for (std::size_t node = 0; node < topology.num_nodes(); ++node) {
    std::vector<std::uint32_t> all = Neighbours(topology, node, options_.both_directions);
    const auto wanted = static_cast<std::size_t>(std::lround(options_.sample_ratio * static_cast<double>(all.size())));
    sample.neighbours.Append(Pick(std::move(all), std::max<std::size_t>(wanted, 1), rng));
  }
  return sample;
}

void GraphSageText::Pack(std::span<const float> values) {
  transform_.Pack(values);
  for (Level& level : levels_) level.net.Pack(values);
}

void GraphSageText::Gather(const StateBatch& states, const Matrix& from, Level* level) const {
  const std::size_t batch = states.batch();
  const std::size_t d = options_.features;
  level->input.Resize(from.rows(), 2 * d);
  if (!TakesOne(options_.aggregation)) {
    JoinMean(from, batch, states.sample->neighbours, &level->input);
    if (options_.aggregation == Aggregation::kMean) return;
    for (std::size_t row = 0; row < level->input.rows(); ++row) {
      const auto count = static_cast<float>(states.sample->neighbours[row / batch].size());
      for (std::size_t f = d; f < 2 * d; ++f) level->input.row(row)[f] *= count;
    }
    return;
  }
  level->input.Reset(from.rows(), 2 * d);
  level->largest.assign(from.rows() * d, 0);
  for (std::size_t node = 0; node < states.num_nodes(); ++node) {
    const auto neighbours = states.sample->neighbours[node];
    for (std::size_t b = 0; b < batch; ++b) {
      const std::size_t row = node * batch + b;
      float* const to = level->input.row(row);
      std::copy_n(from.row(row), d, to);
      for (std::size_t i = 0; i < neighbours.size(); ++i) {
        const float* const value = from.row(neighbours[i] * batch + b);
        for (std::size_t f = 0; f < d; ++f) {
          if (i > 0 && !IsBeyond(options_.aggregation, value[f], to[d + f])) continue;
          to[d + f] = value[f];
          level->largest[row * d + f] = neighbours[i];
        }
      }
    }
  }
}

void GraphSageText::Scatter(const StateBatch& states, const Level& level, const Matrix& d_input, Matrix* d_from) const {
  const std::size_t batch = states.batch();
  const std::size_t d = options_.features;
  d_from->Reset(d_input.rows(), d);
  for (std::size_t node = 0; node < states.num_nodes(); ++node) {
    const auto neighbours = states.sample->neighbours[node];
    for (std::size_t b = 0; b < batch; ++b) {
      const std::size_t row = node * batch + b;
      const float* const change = d_input.row(row);
      AddScaled(change, 1, d, d_from->row(row));
      if (neighbours.empty()) continue;
      if (TakesOne(options_.aggregation)) {
        for (std::size_t f = 0; f < d; ++f) d_from->row(level.largest[row * d + f] * batch + b)[f] += change[d + f];
        continue;
      }
      for (const std::uint32_t other : neighbours) {
        AddScaled(change + d, ShareOf(options_.aggregation, neighbours.size()), d, d_from->row(other * batch + b));
      }
    }
  }
}

const Matrix& GraphSageText::Forward(const StateBatch& states, bool backward) {
  const std::size_t batch = states.batch();
  const std::size_t rows = states.num_nodes() * batch;
  const std::size_t d = options_.features;
  transform_.Prepare(rows, backward, &transform_cache_);
  transform_.Forward(states.features, 0, rows, &transform_cache_);
  const Matrix* from = &transform_cache_.result();
  for (std::size_t k = 0; k < levels_.size(); ++k) {
    Level& level = levels_[k];
    Gather(states, *from, &level);
    level.net.Prepare(rows, backward, &level.cache);
    level.net.Forward(level.input, 0, rows, &level.cache);
    from = &level.cache.result();
    if (k + 1 == levels_.size() || states.evaluating || options_.dropout <= 0) {
      level.kept.clear();
    } else {
      level.kept.resize(rows * d + kLane);
      drawn_.resize(states.num_nodes() * d);
      const float scale = 1 / static_cast<float>(1 - options_.dropout);
      for (std::size_t b = 0; b < batch; ++b) {
        Rng rng = DropoutRng(states.seeds[b], k);
        if (batch == 1) {
          DrawKept(rng, options_.dropout, std::span(level.kept).first(rows * d));
          continue;
        }
        DrawKept(rng, options_.dropout, drawn_);
        for (std::size_t node = 0; node < states.num_nodes(); ++node) {
          std::copy_n(drawn_.data() + node * d, d, level.kept.data() + (node * batch + b) * d);
        }
      }
      level.output.Resize(rows, d);
      Keep(from->row(0), level.kept.data(), scale, rows, d, from->stride(), level.output.row(0));
      from = &level.output;
    }
  }
  out_.Resize(rows, d);
  norms_.resize(rows);
  Normalize(from->row(0), from->stride(), rows, kLeastNorm, norms_.data(), out_.row(0));
  return out_;
}

void GraphSageText::Backward(const StateBatch& states, Matrix& d_out, std::span<float> gradients) {
  const std::size_t rows = out_.rows();
  const std::size_t d = options_.features;
  NormalizeBackward(out_.row(0), out_.stride(), rows, kLeastNorm, norms_.data(), d_out.row(0));
  d_from_ = d_out;
  for (std::size_t k = levels_.size(); k-- > 0;) {
    Level& level = levels_[k];
    if (!level.kept.empty()) {
      const float scale = 1 / static_cast<float>(1 - options_.dropout);
      Keep(d_from_.row(0), level.kept.data(), scale, rows, d, d_from_.stride(), d_from_.row(0));
    }
    level.cache.result_gradient() = d_from_;
    d_input_.Resize(rows, 2 * d);
    level.net.Backward(0, rows, &level.cache, &d_input_);
    level.net.AddGradients(level.input, 0, rows, level.cache, gradients);
    Scatter(states, level, d_input_, &d_from_);
  }
  transform_cache_.result_gradient() = d_from_;
  transform_.Backward(0, rows, &transform_cache_, nullptr);
  transform_.AddGradients(states.features, 0, rows, transform_cache_, gradients);
}

GraphSageCode::GraphSageCode(ParameterSet& parameters, const GraphSageOptions& options)
    : options_(options),
      transform_(parameters, "transform", {options.features, options.features, options.features}, false) {
  const std::size_t d = options.features;
  for (std::size_t i = 0; i <= options.hops; ++i) {
    levels_.push_back({.net = Mlp(parameters, "level" + std::to_string(i), {d, d * (i + 1), d}, false),
                       .source = Interleaving(std::size_t{1} << i, d),
                       .first = {},
                       .input = {},
                       .cache = {},
                       .kept = {},
                       .largest = {},
                       .output = {}});
  }
}

std::vector<std::uint32_t> GraphSageCode::Interleaving(std::size_t half, std::size_t width) {
  std::vector<std::uint32_t> source(2 * half * width);
  for (std::size_t f = 0; f < width; ++f) {
    for (std::size_t c = 0; c < 2 * half; ++c) {
      // Both matrices transposed and joined by columns: value (f, c) of [width, 2 half], read row by row.
      const std::size_t from = c < half ? c * width + f : half * width + (c - half) * width + f;
      source[f * 2 * half + c] = static_cast<std::uint32_t>(from);
    }
  }
  return source;
}

GraphSample GraphSageCode::Draw(const Topology& topology, Rng& rng) const {
  GraphSample sample;
  for (std::size_t node = 0; node < topology.num_nodes(); ++node) {
    std::vector<std::uint32_t> all = Neighbours(topology, node, options_.both_directions);
    const auto wanted = static_cast<std::size_t>(options_.sample_ratio * static_cast<double>(all.size()) + 1e-9);
    sample.neighbours.Append(Pick(std::move(all), wanted, rng));
  }
  return sample;
}

void GraphSageCode::Pack(std::span<const float> values) {
  transform_.Pack(values);
  for (Level& level : levels_) level.net.Pack(values);
}

const Matrix& GraphSageCode::Forward(const StateBatch& states, bool backward) {
  const std::size_t batch = states.batch();
  const std::size_t rows = states.num_nodes() * batch;
  transform_.Prepare(rows, backward, &transform_cache_);
  transform_.Forward(states.features, 0, rows, &transform_cache_);
  const Matrix* from = &transform_cache_.result();
  for (std::size_t i = 0; i < levels_.size(); ++i) {
    ForwardLevel(states, i, *from, backward);
    from = &levels_[i].output;
  }
  const std::size_t per_node = rows_per_node();
  out_.Resize(rows * per_node, options_.features);
  norms_.resize(rows);
  Normalize(from->row(0), per_node * from->stride(), rows, kLeastNorm, norms_.data(), out_.row(0));
  return out_;
}

void GraphSageCode::ForwardLevel(const StateBatch& states, std::size_t i, const Matrix& from, bool backward) {
  Level& level = levels_[i];
  const std::size_t batch = states.batch();
  const std::size_t nodes = states.num_nodes();
  const std::size_t d = options_.features;
  const std::size_t half = std::size_t{1} << i;
  level.first.resize(nodes + 1);
  level.first[0] = 0;
  for (std::size_t node = 0; node < nodes; ++node) {
    const std::size_t rows = states.sample->neighbours[node].empty() ? half : 2 * half;
    level.first[node + 1] = level.first[node] + rows * batch;
  }
  const std::size_t rows = level.first[nodes];
  level.input.Resize(rows, d);
  joined_.resize(2 * half * d);
  if (TakesOne(options_.aggregation)) level.largest.assign(nodes * batch * half * d, 0);
  for (std::size_t node = 0; node < nodes; ++node) {
    const auto neighbours = states.sample->neighbours[node];
    for (std::size_t b = 0; b < batch; ++b) {
      const std::size_t own = (node * batch + b) * half;
      if (neighbours.empty()) {
        std::copy_n(from.row(own), half * from.stride(), level.input.row(level.first[node] + b * half));
        continue;
      }
      float* const aggregate = joined_.data();
      for (std::size_t k = 0; k < neighbours.size(); ++k) {
        const std::uint32_t neighbour = neighbours[k];
        const std::size_t other = (neighbour * batch + b) * half;
        for (std::size_t r = 0; r < half; ++r) {
          const float* const value = from.row(other + r);
          float* const sum = aggregate + r * d;
          if (k == 0) {
            std::copy_n(value, d, sum);
          } else if (!TakesOne(options_.aggregation)) {
            for (std::size_t f = 0; f < d; ++f) sum[f] += value[f];
          }
          if (!TakesOne(options_.aggregation)) continue;
          std::uint32_t* const largest = level.largest.data() + (own + r) * d;
          if (k == 0) {
            std::fill_n(largest, d, neighbour);
            continue;
          }
          for (std::size_t f = 0; f < d; ++f) {
            const bool is_beyond = IsBeyond(options_.aggregation, value[f], sum[f]);
            sum[f] = is_beyond ? value[f] : sum[f];
            largest[f] = is_beyond ? neighbour : largest[f];
          }
        }
      }
      if (options_.aggregation == Aggregation::kMean) {
        for (std::size_t f = 0; f < half * d; ++f) aggregate[f] /= static_cast<float>(neighbours.size());
      }
      for (std::size_t r = 0; r < half; ++r) std::copy_n(from.row(own + r), d, joined_.data() + (half + r) * d);
      Permute(joined_.data(), level.source.data(), 2 * half, d, level.input.row(level.first[node] + b * 2 * half),
              level.input.stride());
    }
  }
  level.net.Prepare(rows, backward, &level.cache);
  level.net.Forward(level.input, 0, rows, &level.cache);

  // Dropout, and expansion to all rows.
  level.kept.resize(rows * d + kLane);
  level.output.Resize(nodes * batch * 2 * half, d);
  const float scale = 1 / static_cast<float>(1 - options_.dropout);
  for (std::size_t b = 0; b < batch; ++b) {
    Rng rng = DropoutRng(states.seeds[b], i);
    for (std::size_t node = 0; node < nodes; ++node) {
      const std::size_t computed = (level.first[node + 1] - level.first[node]) / batch;
      const std::size_t first = level.first[node] + b * computed;
      const std::span<std::uint8_t> kept(level.kept.data() + first * d, computed * d);
      DrawKept(rng, options_.dropout, kept);
      const std::size_t to = (node * batch + b) * 2 * half;
      const std::size_t zeros = 2 * half - computed;
      std::fill_n(level.output.row(to), zeros * level.output.stride(), 0.0F);
      Keep(level.cache.result().row(first), kept.data(), scale, computed, d, level.output.stride(),
           level.output.row(to + zeros));
    }
  }
}

void GraphSageCode::BackwardLevel(const StateBatch& states, std::size_t i, const Matrix& from, const Matrix& d_output,
                                  Matrix* d_from, std::span<float> gradients) {
  Level& level = levels_[i];
  const std::size_t batch = states.batch();
  const std::size_t nodes = states.num_nodes();
  const std::size_t d = options_.features;
  const std::size_t half = std::size_t{1} << i;
  const std::size_t rows = level.first[nodes];
  const float scale = 1 / static_cast<float>(1 - options_.dropout);
  Matrix& d_result = level.cache.result_gradient();
  for (std::size_t node = 0; node < nodes; ++node) {
    const std::size_t computed = (level.first[node + 1] - level.first[node]) / batch;
    for (std::size_t b = 0; b < batch; ++b) {
      const std::size_t first = level.first[node] + b * computed;
      const std::size_t at = (node * batch + b) * 2 * half + 2 * half - computed;
      Keep(d_output.row(at), level.kept.data() + first * d, scale, computed, d, d_result.stride(), d_result.row(first));
    }
  }
  d_input_.Resize(rows, d);
  level.net.Backward(0, rows, &level.cache, &d_input_);
  level.net.AddGradients(level.input, 0, rows, level.cache, gradients);

  d_from->Reset(from.rows(), d);
  joined_.resize(2 * half * d);
  for (std::size_t node = 0; node < nodes; ++node) {
    const auto neighbours = states.sample->neighbours[node];
    for (std::size_t b = 0; b < batch; ++b) {
      const std::size_t own = (node * batch + b) * half;
      if (neighbours.empty()) {
        for (std::size_t r = 0; r < half; ++r) {
          AddScaled(d_input_.row(level.first[node] + b * half + r), 1, d, d_from->row(own + r));
        }
        continue;
      }
      PermuteBack(d_input_.row(level.first[node] + b * 2 * half), d_input_.stride(), level.source.data(), 2 * half, d,
                  joined_.data());
      for (std::size_t r = 0; r < half; ++r) {
        AddScaled(joined_.data() + (half + r) * d, 1, d, d_from->row(own + r));
        const float* const change = joined_.data() + r * d;
        if (TakesOne(options_.aggregation)) {
          for (std::size_t f = 0; f < d; ++f) {
            const std::size_t other = level.largest[(own + r) * d + f];
            d_from->row((other * batch + b) * half + r)[f] += change[f];
          }
          continue;
        }
        const float share = ShareOf(options_.aggregation, neighbours.size());
        for (const std::uint32_t other : neighbours) {
          AddScaled(change, share, d, d_from->row((other * batch + b) * half + r));
        }
      }
    }
  }
}

void GraphSageCode::Backward(const StateBatch& states, Matrix& d_out, std::span<float> gradients) {
  const std::size_t rows = states.num_nodes() * states.batch();
  const std::size_t per_node = rows_per_node();
  NormalizeBackward(out_.row(0), per_node * out_.stride(), rows, kLeastNorm, norms_.data(), d_out.row(0));
  const Matrix* d_output = &d_out;
  for (std::size_t i = levels_.size(); i-- > 0;) {
    const Matrix& from = i > 0 ? levels_[i - 1].output : transform_cache_.result();
    BackwardLevel(states, i, from, *d_output, &d_levels_[i % 2], gradients);
    d_output = &d_levels_[i % 2];
  }
  transform_cache_.result_gradient() = *d_output;
  transform_.Backward(0, rows, &transform_cache_, nullptr);
  transform_.AddGradients(states.features, 0, rows, transform_cache_, gradients);
}

}  // namespace emplace::agents
