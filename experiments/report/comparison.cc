#include "experiments/report/comparison.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "experiments/report/published.h"

namespace emplace::experiments {
namespace {

using Labels = std::set<std::string>;
using Columns = std::vector<std::size_t>;

bool Has(const Columns& columns, std::size_t column) {
  return std::find(columns.begin(), columns.end(), column) != columns.end();
}

PairedQuantity QuantityToCompare(const std::vector<TrialRecord>& trials) {
  const bool all_transfer =
      std::all_of(trials.begin(), trials.end(), [](const TrialRecord& trial) { return !trial.transfers.empty(); });
  return all_transfer ? PairedQuantity::kTransferImprovement : QuantityToPair(trials);
}

// Chooses the columns, and the agents that tried all of them, with the most (agent, column) pairs. On ties the choice
// with more agents is used, then the first.
std::pair<Labels, Columns> ChooseColumns(const std::vector<TrialRecord>& trials, const ReportGrid& grid) {
  std::vector<Labels> tried(grid.columns.size());
  for (std::size_t t = 0; t < trials.size(); ++t) tried[grid.column_of[t]].insert(trials[t].label);
  std::pair<Labels, Columns> best;
  for (const Labels& labels : tried) {
    Columns columns;
    for (std::size_t c = 0; c < tried.size(); ++c) {
      if (std::includes(tried[c].begin(), tried[c].end(), labels.begin(), labels.end())) columns.push_back(c);
    }
    const auto size = std::pair(labels.size() * columns.size(), labels.size());
    if (size > std::pair(best.first.size() * best.second.size(), best.first.size())) best = {labels, columns};
  }
  return best;
}

struct Problems {
  ProblemSet all;  // problems in the selected columns
  ProblemsByLabel solved;
};

Problems CollectProblems(const std::vector<TrialRecord>& trials, const ReportGrid& grid, const Labels& labels,
                         const Columns& columns, const MetricEntry& metric) {
  Problems problems;
  for (const std::string& label : labels) problems.solved[label] = {};
  for (std::size_t t = 0; t < trials.size(); ++t) {
    const std::size_t column = grid.column_of[t];
    if (labels.count(trials[t].label) == 0 || !Has(columns, column)) continue;
    if (metric.name == "improvement") {
      for (const GraphRecord& graph : trials[t].graphs) problems.all.emplace(column, graph.graph);
    } else {
      for (const TransferRecord& graph : trials[t].transfers) problems.all.emplace(column, graph.graph);
    }
    for (const GraphScore& score : metric.scores(trials[t])) {
      problems.solved[trials[t].label].emplace(column, score.graph);
    }
  }
  return problems;
}

ProblemSet SolvedByAll(const Problems& problems) {
  ProblemSet shared = problems.all;
  for (const auto& [label, solved] : problems.solved) {
    std::erase_if(shared, [&own = solved](const auto& problem) { return own.count(problem) == 0; });
  }
  return shared;
}

// Removes agents from `problems` until the others share at least half of all problems.
ProblemSet ShareProblems(Problems* problems, std::vector<LeftOutAgent>* left_out) {
  ProblemSet shared = SolvedByAll(*problems);
  while (problems->solved.size() > 1 && 2 * shared.size() < problems->all.size()) {
    const auto fewest = std::min_element(problems->solved.begin(), problems->solved.end(),
                                         [](auto& a, auto& b) { return a.second.size() < b.second.size(); });
    left_out->push_back({fewest->first, fewest->second.size()});
    problems->solved.erase(fewest);
    shared = SolvedByAll(*problems);
  }
  return shared;
}

// A mean over the shared problems, computed like the last column of a table: over datasets, columns, graphs.
// `scores_of` returns the scores of a trial.
template <typename ScoresOf>
std::optional<Estimate> EstimateShared(const std::vector<TrialRecord>& trials, const ReportGrid& grid,
                                       const ProblemSet& shared, const ScoresOf& scores_of) {
  std::vector<Sample> cells(grid.columns.size());
  for (std::size_t t = 0; t < trials.size(); ++t) {
    for (const GraphScore& score : scores_of(trials[t])) {
      if (shared.count({grid.column_of[t], score.graph}) > 0) {
        cells[grid.column_of[t]][score.graph].push_back(score.score);
      }
    }
  }
  std::vector<Stratum> strata;
  for (const auto& group : ColumnsByDataset(grid)) {
    Stratum stratum;
    for (const std::size_t column : group) {
      if (!cells[column].empty()) stratum.push_back(std::move(cells[column]));
    }
    if (!stratum.empty()) strata.push_back(std::move(stratum));
  }
  return EstimateMean(strata);
}

std::vector<GraphScore> BoundScores(const TrialRecord& trial) {
  std::vector<GraphScore> scores;
  for (const GraphRecord& graph : trial.graphs) {
    const auto bound = graph.lower_bound_micros > 0 ? std::optional(graph.lower_bound_micros) : std::nullopt;
    if (const auto value = ImprovementPercent(graph.single_device_micros, bound)) {
      scores.push_back({graph.graph, {*value, 1}});
    }
  }
  return scores;
}

void AddContenders(const std::vector<TrialRecord>& trials, const ReportGrid& grid, const ProblemSet& shared,
                   const Problems& problems, Comparison* comparison) {
  const MetricEntry& metric = MetricOf(comparison->quantity);
  Labels controls;
  for (const TrialRecord& trial : trials) {
    if (IsControl(trial)) controls.insert(trial.label);
  }
  for (const auto& [label, solved] : problems.solved) {
    const auto own = [&own_label = label, &metric](const TrialRecord& trial) {
      return trial.label == own_label ? metric.scores(trial) : std::vector<GraphScore>();
    };
    if (auto estimate = EstimateShared(trials, grid, shared, own)) {
      comparison->contenders.push_back({label, controls.count(label) > 0, *estimate});
    }
  }
  std::stable_sort(
      comparison->contenders.begin(), comparison->contenders.end(),
      [](const ComparedAgent& a, const ComparedAgent& b) { return a.improvement.mean > b.improvement.mean; });
}

// The agents of which a trial failed (or, if not `are_failed`, is not finished); none if every agent has such a trial.
Labels LabelsWithout(const ReportGrid& grid, const std::vector<UnfinishedTrial>& unfinished, bool are_failed) {
  Labels failed;
  for (const UnfinishedTrial& trial : unfinished) {
    const std::optional<std::string> label = trial.label();
    if (trial.error.has_value() != are_failed || !label) continue;
    if (std::find(grid.labels.begin(), grid.labels.end(), *label) != grid.labels.end()) failed.insert(*label);
  }
  return failed.size() < grid.labels.size() ? failed : Labels();
}

}  // namespace

bool IsControl(const TrialRecord& trial) {
  constexpr std::string_view kControls[] = {"single_device", "cpu_only", "random", "random_walk", "round_robin"};
  return std::find(std::begin(kControls), std::end(kControls), MatchText(trial, "agent.name")) != std::end(kControls);
}

std::optional<Comparison> CompareAgents(const std::vector<TrialRecord>& all_trials, const ReportGrid& all_grid,
                                        const std::vector<UnfinishedTrial>& unfinished) {
  const Labels with_failed = LabelsWithout(all_grid, unfinished, /*are_failed=*/true);
  const Labels with_unfinished = LabelsWithout(all_grid, unfinished, /*are_failed=*/false);
  Labels failed = with_failed;
  failed.insert(with_unfinished.begin(), with_unfinished.end());
  // With one agent left there is nothing to compare: then those that are not finished count with what they have.
  if (failed.size() + 1 >= all_grid.labels.size()) failed = with_failed;
  std::vector<TrialRecord> kept;
  if (!failed.empty()) {
    std::copy_if(all_trials.begin(), all_trials.end(), std::back_inserter(kept),
                 [&failed](const TrialRecord& trial) { return !failed.contains(trial.label); });
  }
  const std::vector<TrialRecord>& trials = failed.empty() ? all_trials : kept;
  ReportGrid grid = all_grid;
  if (!failed.empty()) {
    std::erase_if(grid.labels, [&failed](const std::string& label) { return failed.contains(label); });
    grid.column_of.clear();
    for (std::size_t t = 0; t < all_trials.size(); ++t) {
      if (!failed.contains(all_trials[t].label)) grid.column_of.push_back(all_grid.column_of[t]);
    }
  }
  Comparison comparison{.quantity = QuantityToCompare(trials)};
  if (comparison.quantity == PairedQuantity::kLogStepTime) return std::nullopt;
  const auto [labels, columns] = ChooseColumns(trials, grid);
  Problems problems = CollectProblems(trials, grid, labels, columns, MetricOf(comparison.quantity));
  comparison.columns = columns.size();
  comparison.all_columns =
      std::set<std::size_t>(grid.column_of.begin(), grid.column_of.begin() + static_cast<std::ptrdiff_t>(trials.size()))
          .size();
  for (const std::string& label : grid.labels) {
    if (labels.count(label) == 0) comparison.left_out.push_back({label, std::nullopt});
  }
  for (const std::string& label : failed) {
    const bool has_failed = with_failed.contains(label);
    comparison.left_out.push_back({.label = label, .failed = has_failed, .unfinished = !has_failed});
  }
  for (const UnfinishedTrial& trial : unfinished) {
    const std::optional<std::string> label = trial.label();
    comparison.unfinished += label && !trial.error && !failed.contains(*label) ? 1 : 0;
  }
  const ProblemSet shared = ShareProblems(&problems, &comparison.left_out);
  if (shared.empty()) return std::nullopt;
  comparison.problems = shared.size();
  comparison.all_problems = problems.all.size();
  AddContenders(trials, grid, shared, problems, &comparison);
  if (comparison.quantity == PairedQuantity::kImprovement) {
    if (const auto bound = EstimateShared(trials, grid, shared, BoundScores)) comparison.bound = bound->mean;
  }
  ProblemsByLabel compared;
  for (const ComparedAgent& contender : comparison.contenders) compared[contender.label] = shared;
  comparison.tests = MakeTestsAgainst(comparison.contenders[0].label, trials, grid, compared, comparison.quantity);
  return comparison;
}

const PairedTest* FindTest(const std::vector<PairedTest>& tests, const std::string& a, const std::string& b) {
  const auto found = std::find_if(tests.begin(), tests.end(), [&](const PairedTest& test) {
    return (test.better == a && test.worse == b) || (test.better == b && test.worse == a);
  });
  return found == tests.end() ? nullptr : &*found;
}

}  // namespace emplace::experiments
