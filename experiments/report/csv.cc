#include "experiments/report/csv.h"

#include <fmt/format.h>

#include <array>
#include <numeric>
#include <ostream>
#include <utility>

#include "experiments/report/grid.h"
#include "experiments/report/metrics.h"
#include "experiments/report/paired_tests.h"
#include "experiments/report/published.h"
#include "experiments/report/tables.h"
#include "sim/base/json_text.h"
#include "sim/base/table.h"

namespace emplace::experiments {
namespace {

std::string Text(const std::optional<double>& value) { return value ? NumberText(*value) : ""; }

// "graph.dataset=cifar10; num_devices=3".
std::string AxesText(const ReportGrid& grid, const std::vector<std::string>& column) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < column.size(); ++i) parts.push_back(grid.axes[i] + "=" + column[i]);
  return fmt::format("{}", fmt::join(parts, "; "));
}

// The values over which a column averages: "num_devices=3,5,8".
std::string OverText(const TableColumn& column) {
  std::vector<std::string> parts;
  for (const auto& [axis, values] : column.over) parts.push_back(fmt::format("{}={}", axis, fmt::join(values, ",")));
  return parts.empty() ? "" : fmt::format("{}", fmt::join(parts, "; "));
}

std::string EntropyOf(const TrialRecord& trial, const std::string& graph) {
  for (const GraphScore& score : FindMetric("entropy", "").scores(trial)) {
    if (score.graph == graph) return NumberText(score.score.value);
  }
  return "";
}

// The first cells of every line of a trial.
std::vector<std::string> TrialCells(const ExperimentRuns& runs, const ReportGrid& grid, std::size_t t) {
  const TrialRecord& trial = runs.trials[t];
  return {runs.name,
          trial.id,
          trial.label,
          MatchText(trial, "agent.name"),
          AxesText(grid, grid.columns[grid.column_of[t]]),
          GraphGroup(trial),
          MatchText(trial, "cluster.name"),
          MatchText(trial, "engine"),
          MatchText(trial, "costs"),
          MatchText(trial, "reward"),
          trial.seed};
}

void Append(std::vector<std::string>* cells, std::initializer_list<std::string> more) {
  cells->insert(cells->end(), more);
}

void WriteTrial(std::ostream& out, const ExperimentRuns& runs, const ReportGrid& grid, std::size_t t) {
  const TrialRecord& trial = runs.trials[t];
  for (std::size_t g = 0; g < trial.graphs.size(); ++g) {
    const GraphRecord& graph = trial.graphs[g];
    std::vector<std::string> cells = TrialCells(runs, grid, t);
    Append(&cells,
           {graph.graph, "0", NumberText(graph.num_devices), NumberText(graph.num_ops), NumberText(graph.num_groups),
            Text(graph.start_micros), Text(graph.best_micros),
            Text(ImprovementPercent(graph.single_device_micros, graph.best_micros)),
            NumberText(graph.lower_bound_micros), NumberText(graph.evaluations), EntropyOf(trial, graph.graph)});
    if (g == 0 && trial.timing) {
      const TimingRecord& timing = *trial.timing;
      Append(&cells, {Text(timing.policy_seconds_per_episode), NumberText(timing.policy_seconds),
                      NumberText(timing.simulator_seconds), NumberText(timing.wall_seconds)});
    } else {
      Append(&cells, {"", "", "", ""});
    }
    Append(&cells, {Text(graph.single_device_micros), Text(graph.improvement)});
    WriteCsvLine(out, cells);
  }
  for (const TransferRecord& graph : trial.transfers) {
    std::vector<std::string> cells = TrialCells(runs, grid, t);
    Append(&cells,
           {graph.graph, "1", NumberText(graph.num_devices), "", "", Text(graph.start_micros), Text(graph.best_micros),
            Text(ImprovementPercent(graph.single_device_micros, graph.best_micros)), "", NumberText(graph.evaluations),
            "", "", "", "", "", Text(graph.single_device_micros), Text(graph.improvement)});
    WriteCsvLine(out, cells);
  }
}

void WriteTable(std::ostream& out, const ExperimentRuns& runs, const ReportGrid& grid, const MetricTable& table) {
  for (const TableRow& row : table.rows) {
    for (std::size_t c = 0; c < row.cells.size(); ++c) {
      const auto& estimate = row.cells[c].estimate;
      const auto& published = row.cells[c].published;
      const TableColumn& column = table.columns[c];
      const bool is_cell = column.over.empty();
      std::vector<std::string> cells = {runs.name,
                                        std::string(table.metric->name),
                                        row.label,
                                        column.title,
                                        is_cell ? AxesText(grid, grid.columns[column.cells[0][0]]) : "",
                                        OverText(column)};
      const bool has_interval = estimate && estimate->interval;
      Append(
          &cells,
          {estimate ? NumberText(estimate->mean) : "", has_interval ? NumberText(estimate->interval->low) : "",
           has_interval ? NumberText(estimate->interval->high) : "",
           estimate ? std::to_string(estimate->observations) : "0", estimate ? std::to_string(estimate->graphs) : "0",
           published && published->value ? NumberText(*published->value) : "", published ? published->place : "",
           std::to_string(row.cells[c].trials.found), std::to_string(row.cells[c].trials.wanted)});
      WriteCsvLine(out, cells);
    }
  }
}

// `dataset`: "" for all columns.
void WriteTests(std::ostream& out, const ExperimentRuns& runs, const ReportGrid& grid, const std::string& dataset,
                const std::vector<std::size_t>& columns) {
  constexpr std::array<std::pair<PairedQuantity, const char*>, 3> kQuantities = {
      {{PairedQuantity::kImprovement, "improvement"},
       {PairedQuantity::kTransferImprovement, "transfer_improvement"},
       {PairedQuantity::kLogStepTime, "log_step_time"}}};
  for (const auto& [quantity, name] : kQuantities) {
    for (const PairedTest& test : MakePairedTests(runs.trials, grid, columns, quantity)) {
      const auto& interval = test.difference.interval;
      WriteCsvLine(out,
                   {runs.name, name, dataset, test.better, test.worse, NumberText(test.difference.mean),
                    interval ? NumberText(interval->low) : "", interval ? NumberText(interval->high) : "",
                    std::to_string(test.pairs), NumberText(test.over_pairs.p_value), NumberText(test.adjusted_pairs),
                    std::to_string(test.problems), NumberText(test.over_problems.p_value), std::to_string(test.graphs),
                    NumberText(test.over_graphs.p_value), NumberText(test.adjusted_graphs)});
    }
  }
}

}  // namespace

void WriteTrialsCsv(std::ostream& out, const std::vector<ExperimentRuns>& experiments) {
  WriteCsvLine(out, {"experiment",
                     "trial",
                     "agent",
                     "agent_name",
                     "axes",
                     "graphs",
                     "cluster",
                     "engine",
                     "costs",
                     "reward",
                     "seed",
                     "graph",
                     "transfer",
                     "num_devices",
                     "num_ops",
                     "num_groups",
                     "start_step_time_us",
                     "best_step_time_us",
                     "improvement_percent",
                     "lower_bound_us",
                     "evaluations",
                     "entropy",
                     "policy_seconds_per_episode",
                     "policy_seconds",
                     "simulator_seconds",
                     "wall_seconds",
                     "single_device_step_time_us",
                     "thesis_improvement_percent"});
  for (const ExperimentRuns& runs : experiments) {
    if (runs.trials.empty()) continue;
    const ReportGrid grid = MakeReportGrid(WithMissingTrials(runs));
    for (std::size_t t = 0; t < runs.trials.size(); ++t) WriteTrial(out, runs, grid, t);
  }
}

void WriteTableCsv(std::ostream& out, const std::vector<ExperimentRuns>& experiments) {
  WriteCsvLine(out, {"experiment", "metric", "agent", "column", "axes", "mean_over", "mean", "low_95", "high_95", "n",
                     "graphs", "published", "published_place", "trials_found", "trials_wanted"});
  for (const ExperimentRuns& runs : experiments) {
    if (runs.trials.empty()) continue;
    const std::vector<TrialRecord> trials = WithMissingTrials(runs);
    const ReportGrid grid = MakeReportGrid(trials);
    std::optional<PublishedFigures> published;
    if (!runs.published.empty()) published = LoadPublished(runs.published);
    const PublishedFigures* const figures = published ? &*published : nullptr;
    const std::string where = runs.name + ": metrics";
    for (const std::string& name : MetricsToReport(runs, figures)) {
      const MetricEntry& metric = FindMetric(name, where);
      WriteTable(out, runs, grid, MakeMetricTable(trials, grid, metric, figures));
    }
  }
}

void WriteTestsCsv(std::ostream& out, const std::vector<ExperimentRuns>& experiments) {
  WriteCsvLine(out, {"experiment", "quantity", "dataset", "better", "worse", "difference", "low_95", "high_95", "pairs",
                     "p_pairs", "p_pairs_holm", "problems", "p_problems", "graphs", "p_graphs", "p_graphs_holm"});
  for (const ExperimentRuns& runs : experiments) {
    if (runs.trials.empty()) continue;
    const ReportGrid grid = MakeReportGrid(WithMissingTrials(runs));
    std::vector<std::size_t> all(grid.columns.size());
    std::iota(all.begin(), all.end(), 0);
    WriteTests(out, runs, grid, "", all);
    const auto groups = ColumnsByDataset(grid);
    if (groups.size() < 2) continue;
    for (const auto& group : groups) WriteTests(out, runs, grid, grid.columns[group[0]][0], group);
  }
}

}  // namespace emplace::experiments
