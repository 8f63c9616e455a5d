#ifndef EMPLACE_AGENTS_NAMED_PLACEMENT_H_
#define EMPLACE_AGENTS_NAMED_PLACEMENT_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agents/search.h"
#include "sim/placement.h"

namespace emplace::agents {

// The name that stands for the fastest placement of all agents that evaluate nothing.
inline constexpr std::string_view kBestPlacement = "best";

// The names of FindNamedPlacement: kBestPlacement, and every agent that evaluates nothing and refuses no graph.
std::vector<std::string_view> PlacementNames();

// The placement of the ops of `problem` that `name` stands for, with the problem's grouping and spec's engine,
// collectives, objective, schedule and seed; the rest of spec does not matter. An agent that would take long on this
// graph, or that has nothing to propose on this cluster, is not among the best (IsQuick, RunsOn). none: nothing that
// fits was found. Throws InputError on another name.
std::optional<Placement> FindNamedPlacement(std::string_view name, const SearchSpec& spec,
                                            const SearchProblem& problem);
// The same for `spec.problem`, evaluated by spec's simulator if there is one.
std::optional<Placement> FindNamedPlacement(std::string_view name, const SearchSpec& spec);

// The search with the placements that `start` and `incumbent` stand for on each of its graphs, as RunSearch requires.
// An agent that does not search has no start.
SearchSpec WithNamedPlacements(SearchSpec spec);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_NAMED_PLACEMENT_H_
