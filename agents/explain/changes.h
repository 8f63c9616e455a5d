#ifndef EMPLACE_AGENTS_EXPLAIN_CHANGES_H_
#define EMPLACE_AGENTS_EXPLAIN_CHANGES_H_

#include <span>
#include <vector>

#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/graph.h"
#include "sim/grouping.h"
#include "sim/placement.h"

namespace emplace::agents {

// Which ops move together, and which changed placements can run. Keeps references: all three must outlive it.
class Changes {
 public:
  Changes(const Graph& graph, const Cluster& cluster, const CostTable& costs);

  // The ops that share a device with `op` always, itself included; ascending.
  std::span<const OpId> ClassOf(OpId op) const { return classes_.members(classes_.group_of(op)); }

  // `ops` with their colocation classes; ascending, each once.
  std::vector<OpId> WithClasses(std::span<const OpId> ops) const;

  // Whether `placement` can run, if it could before `moved` changed devices: each of them has a time where it is, and
  // what it reads or sends has links.
  bool CanRun(const Placement& placement, std::span<const OpId> moved) const;

 private:
  bool Linked(DeviceId from, DeviceId to) const { return from == to || cluster_.link(from, to).exists(); }
  bool HasLinks(const Placement& placement, OpId op) const;

  const Graph& graph_;
  const Cluster& cluster_;
  const CostTable& costs_;
  bool all_linked_;
  Grouping classes_;
};

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_EXPLAIN_CHANGES_H_
