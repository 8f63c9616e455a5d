#include "agents/heuristics/search_levels.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "sim/groupers/groupers.h"

namespace emplace::agents {
namespace {

constexpr std::size_t kUnits[] = {1024, 256, 64};

// The units of each level: a unit for each group. Ops are merged, unless that would split a group: then groups are.
std::vector<std::vector<std::uint32_t>> MergedUnits(const Environment& env, std::span<const std::size_t> max_units) {
  std::vector<std::vector<std::uint32_t>> units(max_units.size(),
                                                std::vector<std::uint32_t>(env.observation().num_groups()));
  const std::vector<Grouping> of_ops = MergeAndColocateToEach(env.op_graph(), max_units);
  std::vector<Grouping> of_groups;  // made where needed
  for (std::size_t level = 0; level < units.size(); ++level) {
    bool splits = false;
    for (std::size_t group = 0; group < units[level].size(); ++group) {
      const std::span<const OpId> members = env.grouping().members(group);
      const std::size_t unit = of_ops[level].group_of(members[0]);
      units[level][group] = static_cast<std::uint32_t>(unit);
      splits = splits || std::ranges::any_of(members, [&](OpId op) { return of_ops[level].group_of(op) != unit; });
    }
    if (!splits) continue;
    if (of_groups.empty()) of_groups = MergeAndColocateToEach(env.observation().graph, max_units);
    for (std::size_t group = 0; group < units[level].size(); ++group) {
      units[level][group] = static_cast<std::uint32_t>(of_groups[level].group_of(MakeId<OpId>(group)));
    }
  }
  return units;
}

// Splits every unit whose groups have no device in common by where they may go, and numbers units by their first group.
std::vector<std::uint32_t> PlaceableUnits(const Observation& seen, const std::vector<std::uint32_t>& units) {
  const std::size_t num_devices = seen.num_devices();
  const auto allowed = [&](std::size_t group) {
    const auto* const first = seen.allowed.data() + group * num_devices;
    return std::vector<std::uint8_t>(first, first + num_devices);
  };
  std::map<std::uint32_t, std::vector<std::uint8_t>> common;
  for (std::size_t group = 0; group < units.size(); ++group) {
    const std::vector<std::uint8_t> here = allowed(group);
    std::vector<std::uint8_t>& all = common.try_emplace(units[group], here).first->second;
    for (std::size_t d = 0; d < num_devices; ++d) all[d] &= here[d];
  }
  std::map<std::pair<std::uint32_t, std::vector<std::uint8_t>>, std::uint32_t> numbers;
  std::vector<std::uint32_t> numbered;
  for (std::size_t group = 0; group < units.size(); ++group) {
    const std::vector<std::uint8_t>& all = common[units[group]];
    const bool placeable = std::find(all.begin(), all.end(), 1) != all.end();
    const auto next = static_cast<std::uint32_t>(numbers.size());
    numbered.push_back(
        numbers.try_emplace({units[group], placeable ? std::vector<std::uint8_t>() : allowed(group)}, next)
            .first->second);
  }
  return numbered;
}

SearchLevel MakeLevel(const Graph& graph, std::vector<std::uint32_t> unit_of) {
  std::vector<std::vector<std::uint32_t>> members;
  for (std::size_t group = 0; group < unit_of.size(); ++group) {
    if (unit_of[group] >= members.size()) members.resize(unit_of[group] + 1);
    members[unit_of[group]].push_back(static_cast<std::uint32_t>(group));
  }
  SearchLevel level;
  for (std::size_t unit = 0; unit < members.size(); ++unit) {
    const auto add = [&](OpId other, RaggedRows* rows) {
      if (unit_of[Index(other)] != unit) rows->Add(unit_of[Index(other)]);
    };
    for (const std::uint32_t group : members[unit]) {
      const OpId id = MakeId<OpId>(group);
      level.members.Add(group);
      for (const TensorId input : graph.inputs(id)) add(graph.tensor(input).producer, &level.before);
      for (std::size_t k = 0; k < graph.num_outputs(id); ++k) {
        for (const OpId reader : graph.consumers(MakeId<TensorId>(Index(graph.first_output(id)) + k))) {
          add(reader, &level.after);
        }
      }
    }
    level.members.EndRow();
    level.before.EndRow();
    level.after.EndRow();
  }
  level.unit_of = std::move(unit_of);
  return level;
}

}  // namespace

std::vector<SearchLevel> MakeSearchLevels(const Environment& env) {
  const Graph& graph = env.observation().graph;
  std::vector<std::uint32_t> single(graph.num_ops());
  std::iota(single.begin(), single.end(), 0U);
  std::vector<SearchLevel> levels;
  levels.push_back(MakeLevel(graph, std::move(single)));
  std::vector<std::size_t> max_units;
  for (const std::size_t most : kUnits) {
    if (graph.num_ops() >= 2 * most) max_units.push_back(most);
  }
  if (max_units.empty()) return levels;
  for (const std::vector<std::uint32_t>& units : MergedUnits(env, max_units)) {
    levels.push_back(MakeLevel(graph, PlaceableUnits(env.observation(), units)));
  }
  return levels;
}

Grouping GroupingOfLevel(const Environment& env, const SearchLevel& level) {
  std::vector<std::size_t> labels;
  for (std::size_t i = 0; i < env.op_graph().num_ops(); ++i) {
    labels.push_back(level.unit_of[env.grouping().group_of(MakeId<OpId>(i))]);
  }
  return Grouping(env.op_graph(), labels);
}

}  // namespace emplace::agents
