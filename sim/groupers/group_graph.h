#ifndef EMPLACE_SIM_GROUPERS_GROUP_GRAPH_H_
#define EMPLACE_SIM_GROUPERS_GROUP_GRAPH_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "sim/graph.h"

namespace emplace {

// Groups of ops while a grouper merges them. Starts with the colocation classes; a group is named by its smallest op.
class GroupGraph {
 public:
  // Bytes by neighbouring group: the tensors that pass from one to the other (a tensor that two groups read counts for
  // both).
  using Neighbours = std::map<std::size_t, std::int64_t>;

  explicit GroupGraph(const Graph& graph);

  std::size_t num_groups() const { return num_groups_; }
  // The group that op is in now.
  std::size_t Find(std::size_t op) const;
  bool IsGroup(std::size_t op) const { return Find(op) == op; }
  const Neighbours& successors(std::size_t group) const { return successors_[group]; }
  const Neighbours& predecessors(std::size_t group) const { return predecessors_[group]; }
  // Bytes that leave the group.
  std::int64_t output_bytes(std::size_t group) const { return output_bytes_[group]; }

  // Whether some kind of device may have a time for all ops of both.
  bool Compatible(std::size_t a, std::size_t b) const { return (kinds_[a] & kinds_[b]) != 0; }

  // Makes one group of two. Returns its name, the smaller one. Cost: the neighbours of the other one.
  std::size_t Merge(std::size_t a, std::size_t b);

  // The group of every op, for Grouping.
  std::vector<std::size_t> Labels() const;

 private:
  void MoveEdges(std::size_t from, std::size_t to, std::vector<Neighbours>& out, std::vector<Neighbours>& in);

  mutable std::vector<std::size_t> parent_;
  std::vector<Neighbours> successors_;
  std::vector<Neighbours> predecessors_;
  std::vector<std::int64_t> output_bytes_;
  std::vector<std::uint64_t> kinds_;  // a bit for each device kind that the graph names; all ones: any
  std::size_t num_groups_ = 0;
};

}  // namespace emplace

#endif  // EMPLACE_SIM_GROUPERS_GROUP_GRAPH_H_
