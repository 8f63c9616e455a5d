#include "agents/heuristics/favourite_children.h"

#include <ClpSimplex.hpp>
#include <ClpSolve.hpp>
#include <algorithm>
#include <cstddef>
#include <string>

#include "agents/heuristics/list_scheduler.h"
#include "sim/check.h"

namespace emplace {
namespace {

// A linear program under construction: rows of sum >= bound, columns in [0, upper].
class Program {
 public:
  explicit Program(std::size_t num_columns) : columns_(num_columns) {}

  void BeginRow(double at_least) { bounds_.push_back(at_least); }
  void Add(std::size_t column, double coefficient) {
    columns_[column].push_back({static_cast<int>(bounds_.size() - 1), coefficient});
  }

  // The columns that minimise the last one. The first `num_fractions` columns are at most 1.
  std::vector<double> MinimiseLast(std::size_t num_fractions) const {
    std::vector<CoinBigIndex> starts = {0};
    std::vector<int> rows;
    std::vector<double> coefficients;
    for (const auto& column : columns_) {
      for (const auto& [row, coefficient] : column) {
        rows.push_back(row);
        coefficients.push_back(coefficient);
      }
      starts.push_back(static_cast<CoinBigIndex>(rows.size()));
    }
    const std::vector<double> lower(columns_.size(), 0);
    std::vector<double> upper(columns_.size(), COIN_DBL_MAX);
    std::fill_n(upper.begin(), num_fractions, 1.0);
    std::vector<double> objective(columns_.size(), 0);
    objective.back() = 1;

    ClpSimplex solver;
    solver.setLogLevel(0);
    solver.loadProblem(static_cast<int>(columns_.size()), static_cast<int>(bounds_.size()), starts.data(), rows.data(),
                       coefficients.data(), lower.data(), upper.data(), objective.data(), bounds_.data(), nullptr);
    ClpSolve how;
    how.setSolveType(ClpSolve::useDual);
    how.setPresolveType(ClpSolve::presolveOn);
    solver.initialSolve(how);
    if (!solver.isProvenOptimal()) {
      throw InputError("m_sct",
                       "the linear program was not solved (Clp status " + std::to_string(solver.status()) + ")");
    }
    return {solver.getColSolution(), solver.getColSolution() + columns_.size()};
  }

 private:
  std::vector<std::vector<std::pair<int, double>>> columns_;
  std::vector<double> bounds_;
};

// Rows that let at most one of each group's edges have x = 0; with at most one edge they hold anyway.
void AddFavouriteRows(const std::vector<std::vector<std::size_t>>& edges_of_group, Program* program) {
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
  Program program(num_edges + num_groups + 1);
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

  const std::vector<double> solution = program.MinimiseLast(num_edges);
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
