#ifndef EMPLACE_AGENTS_NODE_FEATURES_H_
#define EMPLACE_AGENTS_NODE_FEATURES_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "agents/environment.h"

namespace emplace::agents {

// Number of outputs, and of dimensions of each, that are features. Source: Mirhoseini et al. 2018, section 2. It does
// not specify "the 6 largest"; here the first are used.
inline constexpr std::size_t kOutputs = 6;
inline constexpr std::size_t kDimensions = 4;
inline constexpr std::size_t kShapeWidth = kOutputs * kDimensions;

// Number of op kinds: those of the catalogue, and one for all others.
std::size_t NumKinds();
// Index of a kind; NumKinds() - 1 for a kind that is not in the catalogue.
std::uint32_t KindIndex(std::string_view kind);

// Node features for a policy that reads a whole graph. Nodes are the groups of an environment: single ops with the
// identity grouping, else colocation classes or larger groups.
struct NodeFeatures {
  // Index of the kind of the node's op with the longest time (mean over the devices that can run it), and the
  // dimensions of its outputs. These are kOutputs times kDimensions, padded with -1.
  std::vector<std::uint32_t> kinds;
  std::vector<std::array<float, kShapeWidth>> shapes;
  // Number of its ops of each kind: (kind, number), ascending.
  std::vector<std::vector<std::pair<std::uint32_t, std::uint32_t>>> kind_counts;
  // Distinct other nodes that it depends on, or that depend on it, through tensors or control edges; ascending.
  std::vector<std::vector<std::uint32_t>> producers;
  std::vector<std::vector<std::uint32_t>> consumers;
  // Bytes of the tensors that it reads from each producer, and that each consumer reads from it.
  std::vector<std::vector<double>> producer_bytes;
  std::vector<std::vector<double>> consumer_bytes;

  std::size_t num_nodes() const { return kinds.size(); }
};
NodeFeatures DescribeNodes(const Environment& env);

// Position of each node in breadth-first order, along consumers, from all nodes without a producer in order of id.
// Source: Mirhoseini et al. 2018, section 2.
std::vector<std::uint32_t> BreadthFirstIndex(const NodeFeatures& nodes);

// The breadth-first indices of 6 producers and 6 consumers of each node, the smallest first, padded with -1.
// Source: Mirhoseini et al. 2018, section 2.
inline constexpr std::size_t kNeighbourIndices = 12;
std::vector<std::array<float, kNeighbourIndices>> NeighbourIndices(const NodeFeatures& nodes);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_NODE_FEATURES_H_
