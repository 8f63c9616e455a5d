#include <set>
#include <vector>

#include "sim/groupers/group_graph.h"
#include "sim/groupers/groupers.h"

namespace emplace {
namespace {

// The one group that reads a group's data, or the group itself if there is none or more than one. (An edge of 0 bytes
// may be a control edge: it does not count.)
std::size_t OnlyReader(const GroupGraph& groups, std::size_t group) {
  std::size_t only = group;
  bool is_only = true;
  groups.ForEach(group, GroupGraph::Direction::kSuccessors, [&](std::size_t reader, std::int64_t bytes) {
    if (bytes == 0) return true;
    is_only = only == group;
    only = reader;
    return is_only;
  });
  return is_only ? only : group;
}

}  // namespace

Grouping GroupByColocation(const Graph& graph, const GroupingOptions&) {
  GroupGraph groups(graph);
  std::set<std::size_t> changed;
  for (std::size_t op = 0; op < graph.num_ops(); ++op) {
    if (groups.IsGroup(op)) changed.insert(op);
  }
  while (!changed.empty()) {
    const std::size_t group = *changed.begin();
    changed.erase(changed.begin());
    const std::size_t reader = OnlyReader(groups, group);
    if (reader == group || !groups.Compatible(group, reader)) continue;
    changed.erase(reader);
    const std::size_t merged = groups.Merge(group, reader);
    changed.insert(merged);
    // They may have one reader left now.
    for (const std::size_t producer : groups.shared_predecessors()) changed.insert(producer);
  }
  return Grouping(graph, groups.Labels());
}

}  // namespace emplace
