#include "agents/heuristics/favourite_children.h"

#include <algorithm>
#include <cstddef>

#include "agents/heuristics/linear_program.h"
#include "agents/heuristics/list_scheduler.h"

namespace emplace {
namespace {

// Rows that let at most one of each group's edges have x = 0; with at most one edge they hold anyway.
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
  // Times around 1 suit the solver's absolute tolerances.
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
    if (!outgoing[group].empty()) continue;  // a consumer's row says more
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

}  // namespace emplace
