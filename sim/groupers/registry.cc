#include <array>

#include "sim/base/registry.h"
#include "sim/groupers/groupers.h"

namespace emplace {

std::span<const GrouperEntry> AllGroupers() {
  static constexpr std::array<GrouperEntry, 6> kGroupers = {{
      {"identity", "One group per op; ops tied by colocate_with share one.", "emplace",
       [](const Graph& graph, const GroupingOptions&) { return ColocationClasses(graph); }},
      {"merge_and_colocate",
       "Merges the group with the fewest output bytes into a neighbour, until the given number is left.",
       "Addanki et al. 2019 (Placeto), A.6", MergeAndColocate},
      {"colocation", "Merges a group into the only group that reads its data, until nothing changes.",
       "Mirhoseini et al. 2017 (ColocRL); Jeon et al. 2020 (Baechi)", GroupByColocation},
      {"modules", "Whole modules, as frameworks move them: an op's layer is the path of its module.", "emplace",
       [](const Graph& graph, const GroupingOptions&) { return FindWholeModules(graph).grouping; }},
      {"layers", "As modules, with one group for each numbered block, such as model.layers.3.", "emplace",
       [](const Graph& graph, const GroupingOptions&) { return GroupByBlock(graph); }},
      {"ops", "Another name of identity, beside modules and layers.", "emplace",
       [](const Graph& graph, const GroupingOptions&) { return ColocationClasses(graph); }},
  }};
  return kGroupers;
}

const GrouperEntry& FindGrouper(std::string_view name) { return FindByName(AllGroupers(), name, "grouping"); }

}  // namespace emplace
