#ifndef EMPLACE_AGENTS_NN_TOPOLOGY_H_
#define EMPLACE_AGENTS_NN_TOPOLOGY_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "agents/nn/node_lists.h"
#include "sim/graph.h"

namespace emplace::agents {

// The relation of a node to another, by reachability. Source: Mitropolitsky 2020, section 2.5, and Placeto's code.
enum class Relation : std::uint8_t { kParent, kChild, kParallel, kSelf };
inline constexpr std::size_t kNumRelations = 3;  // number of aggregated relations

// Structure of a coarse graph for graph networks, computed once. Nodes are groups, numbered in topological order.
class Topology {
 public:
  explicit Topology(const Graph& graph);

  std::size_t num_nodes() const { return predecessors_.size(); }
  const NodeLists& predecessors() const { return predecessors_; }
  const NodeLists& successors() const { return successors_; }

  // Nodes by level: a node's level is the length of the longest path that ends in it (forward) or begins in it
  // (backward). Level l is order[begin[l] .. begin[l + 1]); its nodes receive only from earlier levels.
  struct Levels {
    std::vector<std::uint32_t> order;
    std::vector<std::uint32_t> position;  // position of each node in `order`
    std::vector<std::size_t> begin;
    std::size_t size() const { return begin.size() - 1; }
  };
  const Levels& forward() const { return forward_; }
  const Levels& backward() const { return backward_; }

  // The relation of `other` to `node`: kParent is any ancestor, kChild any descendant, kParallel any node that is
  // unreachable in both directions.
  Relation relation(std::size_t node, std::size_t other) const {
    return static_cast<Relation>(relations_[node * num_nodes() + other]);
  }
  // All ancestors (kParent), descendants (kChild) or unreachable nodes (kParallel) of a node, ascending.
  std::span<const std::uint32_t> related(std::size_t node, Relation relation) const {
    return related_[node * kNumRelations + static_cast<std::size_t>(relation)];
  }

  // Number of edges on the shortest path between each pair of nodes, up to `cutoff`: [num_nodes, num_nodes]. kFar if
  // there is no path that short. `directed`: only along the edges.
  static constexpr std::uint8_t kFar = 255;
  std::vector<std::uint8_t> Distances(std::size_t cutoff, bool directed) const;

 private:
  NodeLists predecessors_;
  NodeLists successors_;
  Levels forward_;
  Levels backward_;
  std::vector<std::uint8_t> relations_;
  NodeLists related_;
};

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_NN_TOPOLOGY_H_
