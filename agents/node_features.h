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

// How many dimensions of how many outputs are looked at. Source: Mirhoseini et al. 2018, section 2: "the 6 largest"
// is not said; ours are the first.
inline constexpr std::size_t kOutputs = 6;
inline constexpr std::size_t kDimensions = 4;
inline constexpr std::size_t kShapeWidth = kOutputs * kDimensions;

// Kinds of ops: those of the catalogue, and one for all others.
std::size_t NumKinds();
// Its index, NumKinds() - 1 for a kind that is not in the catalogue.
std::uint32_t KindIndex(std::string_view kind);

// What a policy that reads a whole graph knows of its nodes, which are the groups of an environment: single ops where
// its grouping is the identity, a colocation class or more elsewhere.
struct NodeFeatures {
  // Of its op that takes longest (mean over the devices that can run it): index of its kind; the dimensions of its
  // outputs, kOutputs times kDimensions, -1 where there are fewer.
  std::vector<std::uint32_t> kinds;
  std::vector<std::array<float, kShapeWidth>> shapes;
  // How many of its ops are of each kind: (kind, number), ascending.
  std::vector<std::vector<std::pair<std::uint32_t, std::uint32_t>>> kind_counts;
  // Distinct nodes that it reads from or waits for, and that do so from it, ascending, itself left out.
  std::vector<std::vector<std::uint32_t>> producers;
  std::vector<std::vector<std::uint32_t>> consumers;
  // Bytes of the tensors that it reads from each producer, and each consumer from it.
  std::vector<std::vector<double>> producer_bytes;
  std::vector<std::vector<double>> consumer_bytes;

  std::size_t num_nodes() const { return kinds.size(); }
};
NodeFeatures DescribeNodes(const Environment& env);

// Position of each node in breadth-first order, along consumers, from all nodes without a producer; those are taken by
// id. Source: Mirhoseini et al. 2018, section 2.
std::vector<std::uint32_t> BreadthFirstIndex(const NodeFeatures& nodes);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_NODE_FEATURES_H_
