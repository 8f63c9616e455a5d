#include "agents/named_placement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "agents/agent.h"
#include "agents/objective.h"
#include "sim/base/check.h"
#include "sim/base/json_text.h"

namespace emplace::agents {
namespace {

bool EvaluatesNothing(const AgentEntry& entry) { return !entry.searches() && !entry.refuses_some; }

}  // namespace

std::vector<std::string_view> PlacementNames() {
  std::vector<std::string_view> names = {kBestPlacement};
  for (const AgentEntry& entry : AllAgents()) {
    if (EvaluatesNothing(entry)) names.push_back(entry.name);
  }
  return names;
}

namespace {

std::optional<Placement> Find(std::string_view name, const SearchSpec& spec, const SearchProblem& problem,
                              const Simulator* simulator) {
  const std::vector<std::string_view> names = PlacementNames();
  if (std::ranges::find(names, name) == names.end()) {
    throw InputError("", fmt::format("is {} ({})", Quoted(name), fmt::join(names, ", ")));
  }
  SearchSpec one{{}, problem};
  one.engine = spec.engine;
  one.collectives = spec.collectives;
  one.objective = spec.objective;
  one.schedule = spec.schedule;
  one.micro_batches = spec.micro_batches;
  one.pipeline = spec.pipeline;
  one.seed = spec.seed;
  one.simulator = simulator;
  const bool is_pipeline = ObjectiveOf(spec).is_pipeline;
  std::optional<Placement> best;
  double best_micros = 0;
  for (const AgentEntry& entry : AllAgents()) {
    const bool asked = name == kBestPlacement ? EvaluatesNothing(entry) && IsQuick(entry, problem.graph.num_ops())
                                              : entry.name == name;
    if (!asked || !RunsOn(entry, problem.cluster)) continue;
    if (name == kBestPlacement && entry.needs_cpu && is_pipeline)
      continue;  // a CPU is not a stage unless it is asked for
    one.agent = entry.name;
    SearchResult result = RunSearch(one);
    if (!result.best || (best && result.best_result.step_time_micros >= best_micros)) continue;
    best_micros = result.best_result.step_time_micros;
    best = std::move(result.best);
  }
  return best;
}

}  // namespace

std::optional<Placement> FindNamedPlacement(std::string_view name, const SearchSpec& spec,
                                            const SearchProblem& problem) {
  return Find(name, spec, problem, nullptr);
}

std::optional<Placement> FindNamedPlacement(std::string_view name, const SearchSpec& spec) {
  return Find(name, spec, spec.problem, spec.simulator);
}

SearchSpec WithNamedPlacements(SearchSpec spec) {
  if (spec.start.empty() && spec.incumbent.empty()) return spec;
  const bool searches = FindAgent(spec.agent).searches();
  const auto resolve = [&](SearchProblem& problem, bool has_start) {
    if (searches && !has_start && !spec.start.empty()) problem.start = FindNamedPlacement(spec.start, spec, problem);
    if (!spec.incumbent.empty()) problem.incumbent = FindNamedPlacement(spec.incumbent, spec, problem);
  };
  resolve(spec.problem, spec.given_start.has_value());
  for (SearchProblem& problem : spec.also) resolve(problem, false);
  for (SearchProblem& problem : spec.transfer) resolve(problem, false);
  spec.names_are_resolved = true;
  return spec;
}

}  // namespace emplace::agents
