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

// Numeric features of a node in SGDP's network: log(1 + dimension) of 4 dimensions of 2 outputs, padded with 0, and
// three values as log(1 + x). These are its time in us (mean over its allowed devices), the bytes that it sends and the
// persistent bytes.
inline constexpr std::size_t kNodeNumbers = 2 * kDimensions + 3;
// The network's input for a problem. Neighbours are at most `most_neighbours` producers and consumers, by decreasing
// bytes of the edge. With `neighbour_ids` the NeighbourIndices() of a node follow its other numbers, divided by the
// number of nodes, or -1 where there are none.
GraphRows RowsOf(const Environment& env, const NodeFeatures& nodes, std::size_t most_neighbours,
                 bool neighbour_ids = false);

// The sampled action of each node.
struct NodeActions {
  std::vector<std::uint32_t> devices;  // [num_nodes]
  std::vector<std::uint8_t> moved;     // [num_nodes]: whether it takes its device or stays; empty: all take their
                                       // devices
};

// The distributions of all nodes, from logits [num_nodes, num_devices] or, with a mask, [num_nodes, num_devices + 1].
// The sigmoid of the last column is the probability that the node moves.
struct NodeOdds {
  std::size_t num_devices = 0;
  std::vector<double> devices;  // [num_nodes, num_devices]
  std::vector<double> moves;    // [num_nodes]; empty without a mask
};
NodeOdds OddsOf(const Matrix& logits, const std::vector<std::vector<std::uint8_t>>& allowed, bool mask);
// `may_stay`: a placement exists in which nodes can stay. If not, the mask is neither sampled nor part of
// probabilities.
NodeActions DrawActions(const NodeOdds& odds, bool likeliest, bool may_stay, Rng& rng);
// Mean over the nodes with more than one choice of H / log(number of choices).
double MeanEntropy(const NodeOdds& odds, const std::vector<std::vector<std::uint8_t>>& allowed);

// The probability whose ratio to its former value is used: the probability of a node's action, that of the whole
// placement, or the geometric mean over its nodes, which is the exponential of the mean log-probability.
enum class PpoRatio : std::uint8_t { kNode, kJoint, kMean };
// Logarithms of joint ratios are kept within this bound, so that neither a ratio nor a gradient overflows, whatever the
// number of nodes. Beyond it the loss is flat, but the gradient is that at the bound: an action that the placement's
// advantage speaks against still becomes less likely.
inline constexpr double kMostLogRatio = 20;

struct PpoOptions {
  double clip_ratio = 0.2;
  double entropy_weight = 0.5;
  PpoRatio ratio = PpoRatio::kNode;
  bool sum_entropy = false;  // over the nodes, not the mean
};
// The loss of sgdp.h for the placements sampled under `old`. Writes its gradient with respect to the logits of `now`.
double PpoLoss(const NodeOdds& old, const NodeOdds& now, std::span<const NodeActions> actions,
               std::span<const double> advantages, const PpoOptions& options, Matrix* d_logits);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_RL_SGDP_NODE_POLICY_H_
