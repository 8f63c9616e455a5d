#include "agents/heuristics/baechi.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "agents/candidates.h"
#include "agents/heuristics/linear_program.h"
#include "agents/heuristics/list_scheduler.h"
#include "agents/heuristics/one_shot.h"
#include "agents/heuristics/solver_input.h"
#include "sim/base/check.h"

namespace emplace::agents {

Placement PlaceByMTopo(const Observation& observation, const MTopoOptions& options) {
  const std::vector<DeviceId>& devices = observation.accelerators;
  std::int64_t sum = 0;
  std::int64_t largest = 0;
  for (std::size_t group = 0; group < observation.num_groups(); ++group) {
    sum += GroupBytes(observation, group);
    largest = std::max(largest, GroupBytes(observation, group));
  }
  const std::int64_t share = sum / static_cast<std::int64_t>(devices.size()) + largest;
  const auto limit = [&](std::size_t i) {
    return options.uniform ? share : Capacity(observation.cluster.device(devices[i]));
  };

  Placement placement(observation.num_groups());
  std::size_t current = 0;
  std::int64_t used = 0;
  for (std::size_t group = 0; group < observation.num_groups(); ++group) {
    DeviceId& place = placement[MakeId<OpId>(group)];
    if (!observation.Allowed(group, Index(devices[current]))) {
      place = observation.Fastest(group, devices);
      continue;
    }
    const std::int64_t bytes = GroupBytes(observation, group);
    while (current + 1 < devices.size() && bytes > limit(current) - used) {
      ++current;
      used = 0;
    }
    const bool stays = observation.Allowed(group, Index(devices[current]));
    place = stays ? devices[current] : observation.Fastest(group, devices);
    if (stays) used += bytes;
  }
  return placement;
}

std::unique_ptr<Agent> MakeMTopoAgent(OptionReader& reader, const AgentContext&) {
  MTopoOptions options;
  reader.Read("uniform", &options.uniform, "fill accelerators to equal shares of memory instead of to their capacity");
  reader.Finish();
  return MakeOneShot([options](const Environment& env, Rng&) { return PlaceByMTopo(env.observation(), options); });
}

Placement PlaceByMEtf(const Observation& observation, const MEtfOptions& options) {
  const auto devices = options.use_cpus ? AllDevices(observation.cluster) : observation.accelerators;
  return ScheduleEarliestFirst(observation, devices, {}).placement;
}

std::unique_ptr<Agent> MakeMEtfAgent(OptionReader& reader, const AgentContext&) {
  MEtfOptions options;
  reader.Read("use_cpus", &options.use_cpus, "also place groups on CPUs that accelerators could run");
  reader.Finish();
  return MakeOneShot([options](const Environment& env, Rng&) { return PlaceByMEtf(env.observation(), options); });
}

namespace {

// Rows that allow x = 0 for at most one edge of each group. With one edge the row would be redundant.
void AddFavouriteRows(const std::vector<std::vector<std::size_t>>& edges_of_group, LinearProgram* program) {
  for (const std::vector<std::size_t>& edges : edges_of_group) {
    if (edges.size() < 2) continue;
    program->BeginRow(static_cast<double>(edges.size()) - 1);
    for (const std::size_t edge : edges) program->Add(edge, 1);
  }
}

}  // namespace

CommunicationPlan PlanCommunication(const Observation& observation, std::span<const DeviceId> devices) {
  CommunicationPlan plan;
  plan.edges = GroupEdges(observation.graph);
  const std::size_t num_groups = observation.num_groups();
  const std::size_t num_edges = plan.edges.size();
  if (num_groups == 0) return plan;
  const MeanLink mean_link(observation.cluster, devices);
  std::vector<double> time;
  double total = 0;
  for (std::size_t group = 0; group < num_groups; ++group) {
    time.push_back(MeanMicros(observation, group, Candidates(observation, group, devices)));
    total += time.back();
  }
  // Times around 1 match the solver's absolute tolerances.
  const double unit = total > 0 ? total / static_cast<double>(num_groups) : 1;

  // Columns: x by edge, s by group, w.
  LinearProgram program(num_edges + num_groups + 1);
  program.num_fractions = num_edges;
  std::vector<std::vector<std::size_t>> outgoing(num_groups);
  std::vector<std::vector<std::size_t>> incoming(num_groups);
  for (std::size_t e = 0; e < num_edges; ++e) {
    const GroupEdge& edge = plan.edges[e];
    program.BeginRow(time[edge.from] / unit);
    program.Add(e, -mean_link.Micros(edge.bytes) / unit);
    program.Add(num_edges + edge.from, -1);
    program.Add(num_edges + edge.to, 1);
    outgoing[edge.from].push_back(e);
    incoming[edge.to].push_back(e);
  }
  for (std::size_t group = 0; group < num_groups; ++group) {
    if (!outgoing[group].empty()) continue;  // a consumer's row is a tighter bound
    program.BeginRow(time[group] / unit);
    program.Add(num_edges + group, -1);
    program.Add(num_edges + num_groups, 1);
  }
  AddFavouriteRows(outgoing, &program);
  AddFavouriteRows(incoming, &program);

  const std::vector<double> solution = MinimiseLast(program);
  plan.makespan_micros = solution.back() * unit;
  plan.far.assign(solution.begin(), solution.begin() + static_cast<std::ptrdiff_t>(num_edges));
  return plan;
}

std::vector<std::size_t> FavouriteChildren(const CommunicationPlan& plan, std::size_t num_groups, double threshold) {
  std::vector<std::size_t> child(num_groups, kNoFavourite);
  std::vector<std::size_t> parent(num_groups, kNoFavourite);
  for (std::size_t e = 0; e < plan.edges.size(); ++e) {
    if (plan.far[e] >= threshold) continue;
    const auto [from, to, bytes] = plan.edges[e];
    if (child[from] != kNoFavourite) parent[child[from]] = kNoFavourite;
    if (parent[to] != kNoFavourite) child[parent[to]] = kNoFavourite;
    child[from] = to;
    parent[to] = from;
  }
  return child;
}

namespace {

void CheckGroupsOfMSct(std::size_t num_groups) {
  if (num_groups <= kMaxGroupsOfMSct) return;
  throw InputError("m_sct", "its linear program takes up to " + std::to_string(kMaxGroupsOfMSct) +
                                " groups, and these are " + std::to_string(num_groups) +
                                "; use the grouping merge_and_colocate");
}

}  // namespace

Placement PlaceByMSct(const Observation& observation, const MSctOptions& options) {
  const std::size_t num_groups = observation.num_groups();
  CheckGroupsOfMSct(num_groups);
  const auto devices = options.use_cpus ? AllDevices(observation.cluster) : observation.accelerators;
  const CommunicationPlan plan = PlanCommunication(observation, devices);
  return ScheduleEarliestFirst(observation, devices, FavouriteChildren(plan, num_groups, options.threshold)).placement;
}

std::unique_ptr<Agent> MakeMSctAgent(OptionReader& reader, const AgentContext&) {
  MSctOptions options;
  reader.Read("threshold", &options.threshold, 0.0, 1.0, "a consumer whose x is below this value is a favourite child");
  reader.Read("use_cpus", &options.use_cpus, "also place groups on CPUs that accelerators could run");
  reader.Finish();
  return MakeOneShot([options](const Environment& env, Rng&) { return PlaceByMSct(env.observation(), options); },
                     CheckGroupsOfMSct);
}

}  // namespace emplace::agents
