#ifndef EMPLACE_SIM_GROUPING_H_
#define EMPLACE_SIM_GROUPING_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cost_model.h"
#include "sim/graph.h"
#include "sim/placement.h"

namespace emplace {

// Op -> group. Groups are numbered by their smallest op id; a colocation class is never split.
class Grouping {
 public:
  // `labels[i]` is any number that the ops of op i's group share. Merges groups that share a colocation class.
  Grouping(const Graph& graph, std::span<const std::size_t> labels);

  std::size_t num_groups() const { return members_.size(); }
  std::size_t num_ops() const { return group_of_.size(); }
  std::size_t group_of(OpId op) const { return group_of_[Index(op)]; }
  std::span<const OpId> members(std::size_t group) const { return members_[group]; }

  // The graph whose ops are the groups: OpId i is group i. Times, FLOP and persistent bytes are sums (a group has a
  // time on a kind where all its ops have one), temporary bytes the largest; one output for each op-level tensor that
  // leaves the group. Edges against the order of groups (they would close cycles) are left out; *dropped_edges counts
  // them. Times come from `costs`, as one number per device kind of `cluster`.
  Graph Coarsen(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                std::size_t* dropped_edges = nullptr) const;

  // The op-level placement of a placement of groups.
  Placement Expand(const Placement& groups) const;

 private:
  std::vector<std::size_t> group_of_;
  std::vector<std::vector<OpId>> members_;
};

// The finest: one group per op; ops that colocate_with binds together share one. Grouper `identity`.
Grouping ColocationClasses(const Graph& graph);

struct GroupingOptions {
  std::size_t max_groups = 256;  // merge_and_colocate stops there; others ignore it
};

// A row of `emplace list groupers`.
struct GrouperEntry {
  std::string_view name;
  std::string_view summary;
  std::string_view source;
  Grouping (*make)(const Graph& graph, const GroupingOptions& options);
};
std::span<const GrouperEntry> AllGroupers();
// Throws InputError that lists the known names.
const GrouperEntry& FindGrouper(std::string_view name);

}  // namespace emplace

#endif  // EMPLACE_SIM_GROUPING_H_
