#include "experiments/report/tables.h"

#include <algorithm>
#include <map>
#include <set>

#include "experiments/report/paired_tests.h"
#include "sim/base/check.h"
#include "sim/base/statistics.h"

namespace emplace::experiments {
namespace {

// By label: its scores in each column of the grid.
using LabelSamples = std::map<std::string, std::vector<Sample>>;

// The best, median or worst score. Requires: at least one.
double OneOf(std::vector<double> scores, const MetricEntry& metric) {
  std::sort(scores.begin(), scores.end());
  if (metric.of_seeds == OfSeeds::kMedian) return SortedQuantile(scores, 0.5);
  const bool smallest = metric.smaller_is_better == (metric.of_seeds == OfSeeds::kBest);
  return smallest ? scores.front() : scores.back();
}

void SummariseSeeds(const MetricEntry& metric, LabelSamples* samples) {
  for (auto& [label, cells] : *samples) {
    for (Sample& cell : cells) {
      for (auto& [graph, observed] : cell) {
        std::vector<double> values;
        for (const Observed& one : observed) values.push_back(one.value / one.per);
        observed = {{OneOf(std::move(values), metric), 1}};
      }
    }
  }
}

// The scores of each trial.
using TrialScores = std::vector<std::vector<GraphScore>>;

TrialScores ScoresOf(const std::vector<TrialRecord>& trials, const ReportGrid& grid, const MetricEntry& metric) {
  if (metric.scores == nullptr) return RankScores(trials, grid);
  TrialScores scores;
  scores.reserve(trials.size());
  for (const TrialRecord& trial : trials) scores.push_back(metric.scores(trial));
  return scores;
}

LabelSamples CollectSamples(const std::vector<TrialRecord>& trials, const ReportGrid& grid, const MetricEntry& metric,
                            const TrialScores& scores) {
  LabelSamples samples;
  for (const std::string& label : grid.labels) samples[label].resize(grid.columns.size());
  for (std::size_t t = 0; t < trials.size(); ++t) {
    for (const GraphScore& score : scores[t]) {
      samples[trials[t].label][grid.column_of[t]][score.graph].push_back(score.score);
    }
  }
  if (metric.of_seeds != OfSeeds::kAll) SummariseSeeds(metric, &samples);
  return samples;
}

// The values of the axes from `first_axis` on in the columns `cells`, ascending.
std::map<std::string, std::vector<std::string>> ValuesOf(const ReportGrid& grid, const std::vector<std::size_t>& cells,
                                                         std::size_t first_axis) {
  std::map<std::string, std::vector<std::string>> values;
  for (std::size_t axis = first_axis; axis < grid.axes.size(); ++axis) {
    std::vector<std::string>& list = values[grid.axes[axis]];
    for (const std::size_t cell : cells) list.push_back(grid.columns[cell][axis]);
    std::sort(list.begin(), list.end(), NaturallyLess);
    list.erase(std::unique(list.begin(), list.end()), list.end());
  }
  return values;
}

// By label: how much of each column of the grid is there. A trial without a value counts as missing where another trial
// of the label has one, or where it did not finish.
std::map<std::string, std::vector<CellTrials>> CountTrials(const std::vector<TrialRecord>& trials,
                                                           const ReportGrid& grid, const MetricEntry& metric,
                                                           const TrialScores& scores_of) {
  struct Seen {
    std::set<std::string> graphs;
    std::size_t trials = 0;
    std::size_t valued = 0;
    std::size_t unfinished = 0;
  };
  std::vector<std::set<std::string>> graphs_of(grid.columns.size());
  std::map<std::string, std::vector<Seen>> seen;
  for (const std::string& label : grid.labels) seen[label].resize(grid.columns.size());
  for (std::size_t t = 0; t < trials.size(); ++t) {
    const TrialRecord& trial = trials[t];
    const std::size_t scores = scores_of[t].size();
    if (metric.scores == nullptr && scores == 0) continue;  // a problem without ranks for anybody
    Seen& cell = seen[trial.label][grid.column_of[t]];
    graphs_of[grid.column_of[t]].insert(GraphKey(trial));
    cell.graphs.insert(GraphKey(trial));
    ++cell.trials;
    const bool is_partial = scores > 1 && scores < trial.graphs.size();
    if (scores > 0 && !is_partial) ++cell.valued;
    if (trial.graphs.empty()) ++cell.unfinished;
  }
  std::map<std::string, std::vector<CellTrials>> counted;
  for (const auto& [label, cells] : seen) {
    for (std::size_t c = 0; c < cells.size(); ++c) {
      const Seen& cell = cells[c];
      const bool has_any = cell.valued > 0 || cell.unfinished > 0;  // else the metric does not exist for the agent
      const std::size_t others = has_any ? graphs_of[c].size() - cell.graphs.size() : 0;
      counted[label].push_back({.found = cell.valued, .wanted = has_any ? cell.trials + others : 0});
    }
  }
  return counted;
}

CellTrials TrialsIn(const std::vector<CellTrials>& cells, const TableColumn& column) {
  CellTrials sum;
  for (const auto& inner : column.cells) {
    for (const std::size_t cell : inner) {
      sum.found += cells[cell].found;
      sum.wanted += cells[cell].wanted;
    }
  }
  return sum;
}

std::optional<PublishedFigure> FigureOf(const std::vector<const TrialRecord*>& trials, const TableColumn& column,
                                        const MetricEntry& metric, const PublishedFigures* published) {
  const PublishedFigure* best = nullptr;
  if (published == nullptr || trials.empty()) return std::nullopt;
  for (const PublishedFigure& figure : published->figures) {
    // A published average is compared only with an average over the same values, never with a cell.
    if (figure.metric != metric.name || figure.over != column.over) continue;
    if (!std::all_of(trials.begin(), trials.end(), [&](const auto* trial) { return Matches(figure, *trial); })) {
      continue;
    }
    if (best == nullptr || figure.match.size() > best->match.size()) best = &figure;
  }
  if (best == nullptr) return std::nullopt;
  return *best;
}

std::optional<Estimate> EstimateColumn(const std::vector<Sample>& samples, const TableColumn& column) {
  std::vector<Stratum> strata;
  for (const auto& cells : column.cells) {
    Stratum& stratum = strata.emplace_back();
    for (const std::size_t cell : cells) {
      if (samples[cell].empty()) return std::nullopt;
      stratum.push_back(samples[cell]);
    }
  }
  return EstimateMean(strata);
}

std::vector<const TrialRecord*> TrialsOf(const std::vector<TrialRecord>& trials, const ReportGrid& grid,
                                         const std::string& label, const TableColumn& column) {
  std::set<std::size_t> cells;
  for (const auto& inner : column.cells) cells.insert(inner.begin(), inner.end());
  std::vector<const TrialRecord*> chosen;
  for (std::size_t t = 0; t < trials.size(); ++t) {
    if (trials[t].label == label && cells.count(grid.column_of[t]) > 0) chosen.push_back(&trials[t]);
  }
  return chosen;
}

void SortRows(MetricTable* table) {
  const auto less = [table](const TableRow& a, const TableRow& b) {
    const auto& x = a.cells.back().estimate;
    const auto& y = b.cells.back().estimate;
    if (x.has_value() != y.has_value()) return x.has_value();
    const bool is_ranked = a.cells.back().IsRanked();
    if (is_ranked != b.cells.back().IsRanked()) return is_ranked;
    if (!x || x->mean == y->mean) return a.label < b.label;
    return table->metric->smaller_is_better ? x->mean < y->mean : x->mean > y->mean;
  };
  std::sort(table->rows.begin(), table->rows.end(), less);
}

}  // namespace

std::vector<TableColumn> MakeTableColumns(const ReportGrid& grid) {
  std::vector<TableColumn> columns;
  const auto groups = ColumnsByDataset(grid);
  const bool several = groups.size() > 1;
  for (const auto& group : groups) {
    for (const std::size_t cell : group) {
      columns.push_back({.title = ColumnTitle(grid, grid.columns[cell]), .cells = {{cell}}, .over = {}});
    }
    if (group.size() < 2) continue;
    columns.push_back({.title = several ? grid.columns[group[0]][0] + ", average" : "average",
                       .cells = {group},
                       .over = ValuesOf(grid, group, several ? 1 : 0)});
  }
  if (several) {
    std::vector<std::size_t> all(grid.columns.size());
    for (std::size_t c = 0; c < all.size(); ++c) all[c] = c;
    columns.push_back({.title = "overall", .cells = groups, .over = ValuesOf(grid, all, 0)});
  }
  return columns;
}

MetricTable MakeMetricTable(const std::vector<TrialRecord>& trials, const ReportGrid& grid, const MetricEntry& metric,
                            const PublishedFigures* published) {
  MetricTable table{.metric = &metric, .columns = MakeTableColumns(grid), .rows = {}};
  const TrialScores scores = ScoresOf(trials, grid, metric);
  const LabelSamples samples = CollectSamples(trials, grid, metric, scores);
  const auto counted = CountTrials(trials, grid, metric, scores);
  for (const std::string& label : grid.labels) {
    TableRow& row = table.rows.emplace_back();
    row.label = label;
    for (const TableColumn& column : table.columns) {
      const auto of_cell = TrialsOf(trials, grid, label, column);
      row.cells.push_back({.estimate = EstimateColumn(samples.at(label), column),
                           .published = FigureOf(of_cell, column, metric, published),
                           .trials = TrialsIn(counted.at(label), column)});
    }
  }
  SortRows(&table);
  return table;
}

std::vector<PolicyCostRow> MakePolicyCostRows(const std::vector<TrialRecord>& trials, const ReportGrid& grid) {
  const auto samples_of = [&](std::string_view name) {
    const MetricEntry& metric = FindMetric(name, "");
    return CollectSamples(trials, grid, metric, ScoresOf(trials, grid, metric));
  };
  const LabelSamples improvements = samples_of("thesis_improvement");
  const LabelSamples seconds = samples_of("policy_seconds");
  std::vector<PolicyCostRow> rows;
  for (const std::string& label : grid.labels) {
    const auto is_empty = [](const Sample& sample) { return sample.empty(); };
    const std::vector<Sample>& gained = improvements.at(label);
    const std::vector<Sample>& spent = seconds.at(label);
    if (std::any_of(gained.begin(), gained.end(), is_empty)) continue;
    if (std::any_of(spent.begin(), spent.end(), is_empty)) continue;
    std::vector<std::vector<double>> improvement;
    std::vector<std::vector<double>> time;
    for (const auto& group : ColumnsByDataset(grid)) {
      improvement.emplace_back();
      time.emplace_back();
      for (const std::size_t cell : group) {
        improvement.back().push_back(SampleMean(gained[cell]));
        time.back().push_back(SampleMean(spent[cell]));
      }
    }
    rows.push_back({.label = label, .cost = SummarisePolicyCost(improvement, time)});
  }
  return rows;
}

}  // namespace emplace::experiments
