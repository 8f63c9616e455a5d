#ifndef EMPLACE_SIM_GROUPERS_GROUP_GRAPH_H_
#define EMPLACE_SIM_GROUPERS_GROUP_GRAPH_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "sim/graph.h"

namespace emplace {

// Groups of ops while a grouper merges them. Starts with the colocation classes; a group is named by its smallest op.
// A group with many neighbours costs no more than others: merges move the shorter lists, and the heaviest neighbour is
// found without a look at all of them.
class GroupGraph {
 public:
  // Bytes by neighbouring group: the tensors that pass from one to the other (a tensor that two groups read counts for
  // both).
  using Neighbours = std::map<std::size_t, std::int64_t>;
  enum class Direction : std::uint8_t { kSuccessors, kPredecessors };

  explicit GroupGraph(const Graph& graph);

  std::size_t num_groups() const { return num_groups_; }
  // The group that op is in now.
  std::size_t Find(std::size_t op) const;
  bool IsGroup(std::size_t op) const { return Find(op) == op; }
  Neighbours successors(std::size_t group) const { return Named(group, Direction::kSuccessors); }
  Neighbours predecessors(std::size_t group) const { return Named(group, Direction::kPredecessors); }
  std::size_t num_successors(std::size_t group) const { return successors_[slot_of_[group]].bytes.size(); }
  std::size_t num_predecessors(std::size_t group) const { return predecessors_[slot_of_[group]].bytes.size(); }
  bool AreNeighbours(std::size_t a, std::size_t b) const;
  // Bytes that leave the group.
  std::int64_t output_bytes(std::size_t group) const { return output_bytes_[group]; }

  // Calls visit(group, bytes) for the neighbours, in no particular order, until it returns false. Requires: no merge
  // meanwhile.
  template <typename Visit>
  void ForEach(std::size_t group, Direction direction, Visit visit) const {
    for (const auto& [slot, bytes] : SideOf(slot_of_[group], direction).bytes) {
      if (!visit(name_of_[slot], bytes)) return;
    }
  }

  // The first neighbour that `accept` takes, the heaviest ones before others, smaller names first among equals.
  std::optional<std::size_t> FindHeaviest(std::size_t group, Direction direction,
                                          const std::function<bool(std::size_t)>& accept);

  // Whether some kind of device may have a time for all ops of both.
  bool Compatible(std::size_t a, std::size_t b) const { return (kinds_[a] & kinds_[b]) != 0; }

  // Makes one group of two. Returns its name, the smaller one. Cost: the neighbours of the one that has fewer.
  std::size_t Merge(std::size_t a, std::size_t b);
  // The groups that fed both groups of the last merge.
  const std::vector<std::size_t>& shared_predecessors() const { return shared_predecessors_; }

  // The group of every op, for Grouping.
  std::vector<std::size_t> Labels() const;

 private:
  // A group's data is in a slot, which stays the same when the group gets a smaller name.
  using Slot = std::uint32_t;
  // The neighbours on one side.
  struct Side {
    std::map<Slot, std::int64_t> bytes;
    std::set<std::pair<std::int64_t, std::size_t>> heaviest;  // (-bytes, name) of all of them, if is_ordered
    bool is_ordered = false;
  };

  const Side& SideOf(Slot slot, Direction direction) const {
    return direction == Direction::kSuccessors ? successors_[slot] : predecessors_[slot];
  }
  Neighbours Named(std::size_t group, Direction direction) const;
  void Order(Slot slot, Direction direction);
  void Add(Side* side, Slot neighbour, std::int64_t bytes) const;
  void Remove(Side* side, Slot neighbour) const;
  // Gives what `from` has on one side to `to`; `back` holds the other ends.
  void MoveEdges(Slot from, Slot to, std::vector<Side>& out, std::vector<Side>& back);
  void Rename(Slot slot, std::size_t name);

  mutable std::vector<std::size_t> parent_;  // indexed by op
  std::vector<Slot> slot_of_;                // indexed by name
  std::vector<std::size_t> name_of_;         // indexed by slot
  std::vector<Side> successors_;             // indexed by slot
  std::vector<Side> predecessors_;           // indexed by slot
  std::set<Slot> ordered_;                   // slots of which a side is ordered
  std::vector<std::int64_t> output_bytes_;   // indexed by name
  std::vector<std::uint64_t> kinds_;  // indexed by name: a bit for each device kind that the graph names; all ones: any
  std::vector<std::size_t> shared_predecessors_;
  std::size_t num_groups_ = 0;
};

}  // namespace emplace

#endif  // EMPLACE_SIM_GROUPERS_GROUP_GRAPH_H_
