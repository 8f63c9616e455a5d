#ifndef EMPLACE_SIM_GRAPH_ALGORITHMS_H_
#define EMPLACE_SIM_GRAPH_ALGORITHMS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/base/units.h"
#include "sim/graph.h"

namespace emplace {

// Ops so that producers come before consumers. (Ids are such an order too, the canonical one; this one is
// boost::topological_sort's.)
std::vector<OpId> TopologicalOrder(const Graph& graph);

// Ops so that producers come before consumers, and that the members of a collective follow one another: of those that
// may come next the smallest id first. Devices that run their ops in this order meet in all collectives.
std::vector<OpId> OrderOfCollectives(const Graph& graph);

// Number of edges on the longest path that ends in each op, by OpId; 0 for ops without producers.
std::vector<std::uint32_t> Depths(const Graph& graph);

// Length of the longest path, where op i takes weights[i] and edges take nothing; 0 for an empty graph.
// Requires: weights.size() == graph.num_ops(), all >= 0.
std::int64_t CriticalPath(const Graph& graph, std::span<const std::int64_t> weights);

// Which ops reach which: ancestors and descendants of every op as bit sets. Memory num_ops^2 / 8 bytes.
// (boost::transitive_closure answers with an adjacency list of all pairs: 64 times the memory.)
class Reachability {
 public:
  explicit Reachability(const Graph& graph);
  // Whether a path of at least one edge leads from `from` to `to`.
  bool Reaches(OpId from, OpId to) const {
    return (rows_[Index(from) * words_per_row_ + Index(to) / 64] >> (Index(to) % 64) & 1U) != 0;
  }

 private:
  std::size_t words_per_row_ = 0;
  std::vector<std::uint64_t> rows_;
};

}  // namespace emplace

#endif  // EMPLACE_SIM_GRAPH_ALGORITHMS_H_
