#include "agents/rl/sgdp/node_policy.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "agents/rl/categorical.h"

namespace emplace::agents {
namespace {

double EntropyOfMove(double moves) { return Entropy(std::array<double, 2>{moves, 1 - moves}); }

// The probability of a node's sampled action.
double ProbabilityOf(const NodeOdds& odds, std::size_t node, const NodeActions& actions) {
  const double of_device = odds.devices[node * odds.num_devices + actions.devices[node]];
  if (actions.moved.empty()) return of_device;
  return actions.moved[node] != 0 ? odds.moves[node] * of_device : 1 - odds.moves[node];
}

// The joint ratio of a placement, or the geometric mean of its nodes' ratios.
double RatioOfPlacement(const NodeOdds& old, const NodeOdds& now, const NodeActions& actions, PpoRatio kind) {
  const std::size_t nodes = actions.devices.size();
  double log_ratio = 0;
  for (std::size_t node = 0; node < nodes; ++node) {
    log_ratio += std::log(ProbabilityOf(now, node, actions)) - std::log(ProbabilityOf(old, node, actions));
  }
  if (kind == PpoRatio::kMean && nodes > 0) log_ratio /= static_cast<double>(nodes);
  return std::exp(std::clamp(log_ratio, -kMostLogRatio, kMostLogRatio));
}

// PPO's clipped objective, and its derivative with respect to the ratio's logarithm.
struct Surrogate {
  double gain = 0;
  double slope = 0;
};
Surrogate Clip(double ratio, double advantage, const PpoOptions& options) {
  const double bounded = std::clamp(ratio, 1 - options.clip_ratio, 1 + options.clip_ratio);
  if (bounded * advantage < ratio * advantage) return {.gain = bounded * advantage, .slope = 0};
  return {.gain = ratio * advantage, .slope = ratio * advantage};
}

}  // namespace

GraphRows RowsOf(const Environment& env, const NodeFeatures& nodes, std::size_t most_neighbours, bool neighbour_ids) {
  const Observation& seen = env.observation();
  GraphRows rows;
  rows.kinds = nodes.kinds;
  rows.numbers.Reset(nodes.num_nodes(), kNodeNumbers + (neighbour_ids ? kNeighbourIndices : 0));
  for (std::size_t node = 0; node < nodes.num_nodes(); ++node) {
    float* const row = rows.numbers.row(node);
    for (std::size_t i = 0; i < 2 * kDimensions; ++i) row[i] = std::log1p(std::max(nodes.shapes[node][i], 0.0F));
    double micros = 0;
    std::size_t count = 0;
    for (std::size_t d = 0; d < seen.num_devices(); ++d) {
      if (!seen.Allowed(node, d)) continue;
      micros += seen.TimeMicros(node, d);
      ++count;
    }
    float* const last = row + 2 * kDimensions;
    last[0] = static_cast<float>(std::log1p(count > 0 ? micros / static_cast<double>(count) : 0));
    last[1] = static_cast<float>(std::log1p(static_cast<double>(seen.output[node].count)));
    last[2] = static_cast<float>(std::log1p(static_cast<double>(seen.persistent[node].count)));
    std::vector<std::pair<double, std::uint32_t>> around;
    for (std::size_t i = 0; i < nodes.producers[node].size(); ++i) {
      around.emplace_back(-nodes.producer_bytes[node][i], nodes.producers[node][i]);
    }
    for (std::size_t i = 0; i < nodes.consumers[node].size(); ++i) {
      around.emplace_back(-nodes.consumer_bytes[node][i], nodes.consumers[node][i]);
    }
    std::sort(around.begin(), around.end());
    around.resize(std::min(around.size(), most_neighbours));
    auto& list = rows.neighbours.emplace_back();
    for (const auto& [bytes, other] : around) list.push_back(other);
  }
  if (!neighbour_ids) return rows;
  const auto indices = NeighbourIndices(nodes);
  for (std::size_t node = 0; node < nodes.num_nodes(); ++node) {
    float* const row = rows.numbers.row(node) + kNodeNumbers;
    for (std::size_t i = 0; i < kNeighbourIndices; ++i) {
      row[i] = indices[node][i] < 0 ? -1 : indices[node][i] / static_cast<float>(nodes.num_nodes());
    }
  }
  return rows;
}

NodeOdds OddsOf(const Matrix& logits, const std::vector<std::vector<std::uint8_t>>& allowed, bool mask) {
  NodeOdds odds;
  odds.num_devices = logits.width() - (mask ? 1 : 0);
  odds.devices.resize(logits.rows() * odds.num_devices);
  for (std::size_t node = 0; node < logits.rows(); ++node) {
    Softmax(logits.values(node).first(odds.num_devices), allowed[node],
            std::span(odds.devices).subspan(node * odds.num_devices, odds.num_devices));
    if (mask) odds.moves.push_back(1 / (1 + std::exp(-static_cast<double>(logits.row(node)[odds.num_devices]))));
  }
  return odds;
}

NodeActions DrawActions(const NodeOdds& odds, bool likeliest, bool may_stay, Rng& rng) {
  NodeActions actions;
  const std::size_t nodes = odds.num_devices > 0 ? odds.devices.size() / odds.num_devices : 0;
  for (std::size_t node = 0; node < nodes; ++node) {
    const auto row = std::span(odds.devices).subspan(node * odds.num_devices, odds.num_devices);
    actions.devices.push_back(static_cast<std::uint32_t>(likeliest ? Likeliest(row) : Draw(row, rng)));
    if (odds.moves.empty() || !may_stay) continue;
    actions.moved.push_back(likeliest ? odds.moves[node] >= 0.5 : rng.Uniform() < odds.moves[node]);
  }
  return actions;
}

double MeanEntropy(const NodeOdds& odds, const std::vector<std::vector<std::uint8_t>>& allowed) {
  double sum = 0;
  std::size_t count = 0;
  for (std::size_t node = 0; node < allowed.size(); ++node) {
    const auto choices = std::count(allowed[node].begin(), allowed[node].end(), 1);
    if (choices < 2) continue;
    sum += RelativeEntropy(std::span(odds.devices).subspan(node * odds.num_devices, odds.num_devices),
                           static_cast<std::size_t>(choices));
    ++count;
  }
  return count > 0 ? sum / static_cast<double>(count) : 0;
}

double PpoLoss(const NodeOdds& old, const NodeOdds& now, std::span<const NodeActions> actions,
               std::span<const double> advantages, const PpoOptions& options, Matrix* d_logits) {
  const std::size_t width = now.num_devices;
  const std::size_t nodes = width > 0 ? now.devices.size() / width : 0;
  const bool mask = !now.moves.empty();
  d_logits->Reset(nodes, width + (mask ? 1 : 0));
  const auto count = static_cast<double>(actions.size());
  const bool shared = options.ratio != PpoRatio::kNode;
  std::vector<Surrogate> of_placements;
  double loss = 0;
  for (std::size_t n = 0; shared && n < actions.size(); ++n) {
    of_placements.push_back(Clip(RatioOfPlacement(old, now, actions[n], options.ratio), advantages[n], options));
    loss -= of_placements[n].gain / count;
  }
  // d log ratio / d log p of a node's action is 1 for a node's own ratio and for a joint one.
  const double share = 1 / (options.ratio == PpoRatio::kJoint ? count : count * static_cast<double>(nodes));
  const double of_nodes = options.entropy_weight / (options.sum_entropy ? 1 : static_cast<double>(nodes));
  std::vector<double> gradient(width);
  for (std::size_t node = 0; node < nodes; ++node) {
    const double* const p = now.devices.data() + node * width;
    std::fill(gradient.begin(), gradient.end(), 0.0);
    double of_move = 0;
    for (std::size_t n = 0; n < actions.size(); ++n) {
      Surrogate surrogate;
      if (shared) {
        surrogate = of_placements[n];
      } else {
        const double ratio = ProbabilityOf(now, node, actions[n]) / ProbabilityOf(old, node, actions[n]);
        surrogate = Clip(ratio, advantages[n], options);
        loss -= share * surrogate.gain;
      }
      if (surrogate.slope == 0) continue;
      const double weight = share * surrogate.slope;
      const bool drew_move = !actions[n].moved.empty();
      const bool moved = !drew_move || actions[n].moved[node] != 0;
      if (moved) {
        for (std::size_t d = 0; d < width; ++d) gradient[d] += weight * p[d];
        gradient[actions[n].devices[node]] -= weight;
      }
      if (drew_move) of_move -= weight * (moved ? 1 - now.moves[node] : -now.moves[node]);
    }
    const double entropy = Entropy({p, width});
    loss -= of_nodes * entropy;
    for (std::size_t d = 0; d < width; ++d) {
      // dH/dl_d = -p_d (log p_d + H)
      if (p[d] > 0) gradient[d] += of_nodes * p[d] * (std::log(p[d]) + entropy);
      d_logits->row(node)[d] = static_cast<float>(gradient[d]);
    }
    if (!mask) continue;
    const double q = now.moves[node];
    loss -= of_nodes * EntropyOfMove(q);
    // dH/dx = -q (1 - q) log(q / (1 - q))
    if (q > 0 && q < 1) of_move += of_nodes * q * (1 - q) * std::log(q / (1 - q));
    d_logits->row(node)[width] = static_cast<float>(of_move);
  }
  return loss;
}

}  // namespace emplace::agents
