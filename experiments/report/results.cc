#include "experiments/report/results.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "experiments/report/metrics.h"
#include "experiments/report/statistics.h"
#include "experiments/report/tables.h"
#include "sim/base/human_readable.h"
#include "sim/base/json_text.h"
#include "sim/base/json_value.h"
#include "sim/base/statistics.h"

namespace emplace::experiments {
namespace {

using Blocks = std::vector<ReportBlock>;

Estimate Scaled(Estimate estimate, double factor) {
  estimate.mean *= factor;
  if (estimate.interval)
    estimate.interval = Interval{estimate.interval->low * factor, estimate.interval->high * factor};
  return estimate;
}

// The best mean of each column, of the rows that lack no trial there; nullopt if there is none.
std::vector<std::optional<double>> BestMeans(const MetricTable& table) {
  std::vector<std::optional<double>> best(table.columns.size());
  for (const TableRow& row : table.rows) {
    for (std::size_t c = 0; c < row.cells.size(); ++c) {
      const auto& estimate = row.cells[c].estimate;
      if (!row.cells[c].IsRanked()) continue;
      const bool smaller = table.metric->smaller_is_better;
      if (!best[c] || (smaller ? estimate->mean < *best[c] : estimate->mean > *best[c])) best[c] = estimate->mean;
    }
  }
  return best;
}

std::string ObservationsPerCell(const MetricTable& table, const TableRow& row) {
  std::set<std::size_t> counts;
  for (std::size_t c = 0; c < row.cells.size(); ++c) {
    if (table.columns[c].over.empty() && row.cells[c].estimate) counts.insert(row.cells[c].estimate->observations);
  }
  if (counts.empty()) return "0";
  if (counts.size() == 1) return std::to_string(*counts.begin());
  return fmt::format("{} to {}", *counts.begin(), *counts.rbegin());
}

}  // namespace

TableBlock ShowTable(const MetricTable& table) {
  const MetricEntry& metric = *table.metric;
  TableBlock block;
  block.caption = std::string(metric.title);
  if (!metric.unit.empty()) block.caption += fmt::format(", {}", metric.unit);
  block.header = {"agent"};
  for (const TableColumn& column : table.columns) block.header.push_back(column.title);
  block.header.emplace_back("n per cell");
  const auto best = BestMeans(table);
  for (const TableRow& row : table.rows) {
    auto& cells = block.rows.emplace_back();
    cells.push_back({row.label});
    for (std::size_t c = 0; c < row.cells.size(); ++c) {
      const TableCell& cell = row.cells[c];
      TextCell shown = cell.estimate ? EstimateCell(Scaled(*cell.estimate, metric.shown_per_unit)) : TextCell{"–"};
      shown.strong = cell.IsRanked() && cell.estimate->mean == best[c] && table.rows.size() > 1;
      if (!cell.trials.IsComplete()) {
        shown.details.push_back(fmt::format("({} of {})", cell.trials.found, cell.trials.wanted));
      }
      if (cell.published) shown.details.push_back(fmt::format("(published {})", FigureText(*cell.published)));
      cells.push_back(std::move(shown));
    }
    cells.push_back({ObservationsPerCell(table, row)});
  }
  return block;
}

TableBlock ImprovementTable(const ExperimentRuns& runs) {
  const std::vector<TrialRecord> trials = WithMissingTrials(runs);
  return ShowTable(MakeMetricTable(trials, MakeReportGrid(trials), FindMetric("improvement", ""), nullptr));
}

std::vector<std::string> SingleOpsNotes(const std::vector<TrialRecord>& trials) {
  std::map<std::string, std::vector<double>> ratios;
  for (const TrialRecord& trial : trials) {
    if (trial.graphs.empty()) continue;
    const GraphRecord& graph = trial.graphs.front();
    const JsonValue* const grouping = FindPath(trial.spec, "grouping.name");
    if (!graph.single_ops_micros || !graph.best_micros || grouping == nullptr) continue;
    const bool is_positive = *graph.single_ops_micros > 0;
    ratios[PlainText(*grouping)].push_back(is_positive ? *graph.best_micros / *graph.single_ops_micros : 1);
  }
  std::vector<std::string> notes;
  notes.reserve(ratios.size());
  for (const auto& [grouping, values] : ratios) {
    notes.push_back(
        fmt::format("grouping {}: steps take {:.2f} times as long as where single ops move, which frameworks do not "
                    "(median of {})",
                    grouping, Median(values), Counted(values.size(), "trial")));
  }
  return notes;
}

namespace {

bool HasValues(const MetricTable& table) {
  return std::any_of(table.rows.begin(), table.rows.end(), [](const TableRow& row) {
    return std::any_of(row.cells.begin(), row.cells.end(), [](const TableCell& cell) { return bool(cell.estimate); });
  });
}

void AddPolicyCost(const ExperimentRuns& runs, const ReportGrid& grid, Blocks* blocks) {
  const std::vector<PolicyCostRow> rows = MakePolicyCostRows(runs.trials, grid);
  if (rows.empty()) return;
  TableBlock block;
  block.caption = "P-C in three ways, %/s";
  block.header = {"agent", "mean of cell ratios (as published)", "mean of datasets' ratios of means",
                  "ratio of overall means"};
  for (const PolicyCostRow& row : rows) {
    block.rows.push_back({{row.label},
                          {ShownNumber(row.cost.mean_of_cells)},
                          {ShownNumber(row.cost.mean_of_dataset_ratios)},
                          {ShownNumber(row.cost.ratio_of_means)}});
  }
  blocks->push_back(std::move(block));
  blocks->push_back(ParagraphBlock{
      "Datasets whose policies are quick to compute dominate a mean of ratios; in the ratio of means every second "
      "weighs the same."});
}

}  // namespace

std::vector<ReportBlock> ResultBlocks(const ExperimentRuns& runs, const ReportGrid& grid,
                                      const PublishedFigures* published) {
  Blocks blocks;
  blocks.push_back(HeadingBlock{3, "Results"});
  blocks.push_back(ParagraphBlock{fmt::format(
      "Each cell has a mean and its 95 % interval: percentile bootstrap over graphs, then seeds within a graph, {} "
      "resamples. n counts pairs of graph and seed. Averages are plain means of cells; “overall” is the plain mean of "
      "the datasets' averages. Rows are in the order of the last column, best first.",
      kResamples)});
  const std::vector<TrialRecord> trials = WithMissingTrials(runs);
  if (trials.size() > runs.trials.size()) {
    blocks.push_back(
        ParagraphBlock{"“(5 of 6)” marks a cell that lacks trials: its mean is over fewer problems than others in its "
                       "column, so it is not ranked. The second number counts the agent's trials, and one for each "
                       "graph of the column that only other agents have."});
  }
  if (published != nullptr) blocks.push_back(ParagraphBlock{"Published figures: " + published->source + "."});
  const std::string where = runs.name + ": metrics";
  for (const std::string& name : MetricsToReport(runs, published)) {
    const MetricEntry& metric = FindMetric(name, where);
    const MetricTable table = MakeMetricTable(trials, grid, metric, published);
    if (!HasValues(table)) {
      blocks.push_back(ParagraphBlock{fmt::format("{}: no trial has any.", metric.title)});
      continue;
    }
    blocks.push_back(ShowTable(table));
    if (metric.name == "pc_ratio") AddPolicyCost(runs, grid, &blocks);
  }
  for (const std::string& note : SingleOpsNotes(runs.trials)) blocks.push_back(ParagraphBlock{note + "."});
  return blocks;
}

}  // namespace emplace::experiments
