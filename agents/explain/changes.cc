#include "agents/explain/changes.h"

#include <algorithm>

namespace emplace::agents {

Changes::Changes(const Graph& graph, const Cluster& cluster, const CostTable& costs)
    : graph_(graph),
      cluster_(cluster),
      costs_(costs),
      all_linked_(!cluster.FindMissingLink()),
      classes_(ColocationClasses(graph)) {}

std::vector<OpId> Changes::WithClasses(std::span<const OpId> ops) const {
  std::vector<OpId> classes;
  for (const OpId op : ops) classes.push_back(graph_.colocation_class(op));
  std::sort(classes.begin(), classes.end());
  classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
  std::vector<OpId> all;
  for (const OpId of : classes) {
    const std::span<const OpId> members = ClassOf(of);
    all.insert(all.end(), members.begin(), members.end());
  }
  std::sort(all.begin(), all.end());
  return all;
}

bool Changes::CanRun(const Placement& placement, std::span<const OpId> moved) const {
  return std::all_of(moved.begin(), moved.end(), [&](OpId op) {
    return costs_.Allowed(op, placement[op]) && (all_linked_ || HasLinks(placement, op));
  });
}

bool Changes::HasLinks(const Placement& placement, OpId op) const {
  const DeviceId here = placement[op];
  const auto from = [&](OpId producer) { return Linked(placement[producer], here); };
  const auto to = [&](OpId reader) { return Linked(here, placement[reader]); };
  for (const TensorId input : graph_.inputs(op)) {
    if (!from(graph_.tensor(input).producer)) return false;
  }
  for (std::size_t k = 0; k < graph_.num_outputs(op); ++k) {
    const auto readers = graph_.consumers(MakeId<TensorId>(Index(graph_.first_output(op)) + k));
    if (!std::all_of(readers.begin(), readers.end(), to)) return false;
  }
  const auto before = graph_.control_inputs(op);
  const auto after = graph_.control_consumers(op);
  return std::all_of(before.begin(), before.end(), from) && std::all_of(after.begin(), after.end(), to);
}

}  // namespace emplace::agents
