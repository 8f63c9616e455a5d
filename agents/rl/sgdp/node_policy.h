#ifndef EMPLACE_AGENTS_RL_SGDP_NODE_POLICY_H_
#define EMPLACE_AGENTS_RL_SGDP_NODE_POLICY_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "agents/nn/graph_transformer.h"
#include "agents/nn/kernel.h"
#include "agents/node_features.h"
#include "sim/base/rng.h"

namespace emplace::agents {

// Numbers of a node in SGDP's network: log(1 + dimension) of 4 dimensions of 2 outputs, 0 where there are fewer; log(1
// + x) of its time in us (mean over the devices where it may go), of the bytes that it sends and of those that stay.
inline constexpr std::size_t kNodeNumbers = 2 * kDimensions + 3;
// What the network reads of a problem: neighbours are producers and consumers, at most so many, those with the most
// bytes between first.
GraphRows RowsOf(const Environment& env, const NodeFeatures& nodes, std::size_t most_neighbours);

// What each node drew.
struct NodeActions {
  std::vector<std::uint32_t> devices;  // [num_nodes]
  std::vector<std::uint8_t> moved;     // [num_nodes]: whether it took its device or stayed; empty: all took theirs
};

// The distributions of all nodes, from logits [num_nodes, num_devices] or, with a mask, [num_nodes, num_devices + 1],
// whose last column says by a sigmoid how likely the node moves.
struct NodeOdds {
  std::size_t num_devices = 0;
  std::vector<double> devices;  // [num_nodes, num_devices]
  std::vector<double> moves;    // [num_nodes]; empty without a mask
};
NodeOdds OddsOf(const Matrix& logits, const std::vector<std::vector<std::uint8_t>>& allowed, bool mask);
// `may_stay`: there is a placement where nodes can stay. Without one a mask draws nothing and has no say in the odds.
NodeActions DrawActions(const NodeOdds& odds, bool likeliest, bool may_stay, Rng& rng);
// Mean over the nodes that have a choice of H / log(number of choices).
double MeanEntropy(const NodeOdds& odds, const std::vector<std::vector<std::uint8_t>>& allowed);

struct PpoOptions {
  double clip_ratio = 0.2;
  double entropy_weight = 0.5;
};
// The loss of sgdp.h for the placements drawn under `old`, and its gradient by the logits that `now` is of.
double PpoLoss(const NodeOdds& old, const NodeOdds& now, std::span<const NodeActions> actions,
               std::span<const double> advantages, const PpoOptions& options, Matrix* d_logits);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_RL_SGDP_NODE_POLICY_H_
