#include "experiments/report/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <utility>

#include "experiments/report/paired_tests.h"
#include "experiments/report/published.h"
#include "experiments/report/report_charts.h"
#include "experiments/report/report_grid.h"
#include "experiments/report/report_hardware.h"
#include "experiments/report/report_metrics.h"
#include "experiments/report/report_tables.h"
#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "sim/base/fingerprint.h"

namespace emplace {
namespace {

constexpr std::size_t kMostNamed = 20;  // of failed trials
constexpr const char* kLogCaption = "Step time (100 × the log of the ratio)";

using Blocks = std::vector<ReportBlock>;

template <typename TextOf>
std::string Distinct(const std::vector<TrialRecord>& trials, const TextOf& text_of) {
  std::set<std::string> texts;
  for (const TrialRecord& trial : trials) texts.insert(text_of(trial));
  return fmt::format("{}", fmt::join(NaturallySorted(texts), "; "));
}

std::string OrUnknown(const std::string& text) { return text.empty() ? "unknown" : text; }

// The distinct values of a key path.
std::string DistinctAt(const std::vector<TrialRecord>& trials, const char* key) {
  return Distinct(trials, [key](const TrialRecord& trial) { return OrUnknown(MatchText(trial, key)); });
}

// What each label stands for.
TableBlock ShowAgents(const std::vector<TrialRecord>& trials) {
  std::map<std::string, std::vector<TrialRecord>> by_label;
  for (const TrialRecord& trial : trials) by_label[trial.label].push_back(trial);
  TableBlock block{.caption = "Agents and their options",
                   .header = {"agent", "name", "options", "reward"},
                   .rows = {},
                   .text_columns = 4,
                   .folded = true};
  for (const auto& [label, own] : by_label) {
    auto& row = block.rows.emplace_back();
    row.push_back({label});
    for (const char* const key : {"agent.name", "agent.set", "reward"}) row.push_back({DistinctAt(own, key)});
  }
  return block;
}

std::string Name(const UnfinishedTrial& trial) {
  return trial.what.empty() ? trial.id : fmt::format("{} ({})", trial.what, trial.id);
}

void AddUnfinished(const ExperimentRuns& runs, std::vector<std::string>* items) {
  std::size_t failed = 0;
  std::vector<std::string> missing;
  for (const UnfinishedTrial& trial : runs.unfinished) {
    if (!trial.error) {
      missing.push_back(Name(trial));
    } else if (++failed <= kMostNamed) {
      items->push_back(fmt::format("Failed: {}: {}", Name(trial), *trial.error));
    }
  }
  if (failed > kMostNamed) items->push_back(fmt::format("Failed: {} more.", failed - kMostNamed));
  if (missing.empty()) return;
  const std::size_t count = missing.size();
  missing.resize(std::min(count, kMostNamed));
  items->push_back(fmt::format("Not finished: {}: {}{}.", Counted(count, "trial"), fmt::join(missing, "; "),
                               count > kMostNamed ? "; …" : ""));
}

std::size_t NothingFound(const std::vector<TrialRecord>& trials) {
  return static_cast<std::size_t>(std::count_if(trials.begin(), trials.end(), [](const TrialRecord& trial) {
    return std::any_of(trial.graphs.begin(), trial.graphs.end(), [](const auto& graph) { return !graph.best_micros; });
  }));
}

void AddWhatRan(const ExperimentRuns& runs, Blocks* blocks) {
  std::size_t failed = 0;
  for (const UnfinishedTrial& trial : runs.unfinished) failed += trial.error ? 1 : 0;
  std::vector<std::string> items;
  if (!runs.kept.empty()) items.push_back(fmt::format("Only trials with {}.", fmt::join(runs.kept, ", ")));
  items.push_back(fmt::format("{} finished, {} failed, {} not finished.", Counted(runs.trials.size(), "trial"), failed,
                              runs.unfinished.size() - failed));
  const auto& trials = runs.trials;
  if (!trials.empty()) {
    items.push_back("Agents: " + Distinct(trials, [](const auto& trial) { return trial.label; }) + ".");
    items.push_back("Graphs: " + Distinct(trials, GraphGroup) + ".");
    constexpr std::pair<const char*, const char*> kFacts[] = {{"Clusters", "cluster.name"},
                                                              {"Devices", "num_devices"},
                                                              {"Engines", "engine"},
                                                              {"Costs", "costs"},
                                                              {"Rewards", "reward"}};
    for (const auto& [name, key] : kFacts) items.push_back(fmt::format("{}: {}.", name, DistinctAt(trials, key)));
    items.push_back("Seeds: " + Distinct(trials, [](const auto& trial) { return trial.seed; }) + ".");
    items.push_back(fmt::format("emplace {}, revision {}.",
                                Distinct(trials, [](const auto& trial) { return OrUnknown(trial.version); }),
                                Distinct(trials, [](const auto& trial) { return OrUnknown(trial.revision); })));
    if (const std::size_t none = NothingFound(trials); none > 0) {
      items.push_back(
          fmt::format("{} found nothing that fits in memory; tables leave them out.", Counted(none, "trial")));
    }
  }
  AddUnfinished(runs, &items);
  blocks->push_back(HeadingBlock{3, "What ran"});
  blocks->push_back(BulletsBlock{std::move(items)});
  if (!trials.empty()) blocks->push_back(ShowAgents(trials));
}

Estimate Scaled(Estimate estimate, double factor) {
  estimate.mean *= factor;
  if (estimate.interval)
    estimate.interval = Interval{estimate.interval->low * factor, estimate.interval->high * factor};
  return estimate;
}

TextCell ShowEstimate(const Estimate& estimate) {
  EstimateText text = ShownEstimate(estimate);
  TextCell cell{.text = std::move(text.mean), .strong = false, .details = {}};
  if (!text.interval.empty()) cell.details.push_back(std::move(text.interval));
  return cell;
}

// The best mean of each column; nullopt where there is none.
std::vector<std::optional<double>> BestMeans(const MetricTable& table) {
  std::vector<std::optional<double>> best(table.columns.size());
  for (const TableRow& row : table.rows) {
    for (std::size_t c = 0; c < row.cells.size(); ++c) {
      const auto& estimate = row.cells[c].estimate;
      if (!estimate) continue;
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
      TextCell shown = cell.estimate ? ShowEstimate(Scaled(*cell.estimate, metric.shown_per_unit)) : TextCell{"–"};
      shown.strong = cell.estimate && cell.estimate->mean == best[c] && table.rows.size() > 1;
      if (cell.published) shown.details.push_back(fmt::format("(published {})", cell.published->value));
      cells.push_back(std::move(shown));
    }
    cells.push_back({ObservationsPerCell(table, row)});
  }
  return block;
}

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
      "A mean of ratios is ruled by the datasets whose policies are quick to compute; the ratio of means "
      "weighs every second alike."});
}

void AddMetrics(const ExperimentRuns& runs, const ReportGrid& grid, const PublishedFigures* published, Blocks* blocks) {
  blocks->push_back(HeadingBlock{3, "Results"});
  blocks->push_back(ParagraphBlock{fmt::format(
      "Mean and 95 % interval: percentile bootstrap over graphs, then seeds within a graph, {} resamples. n counts "
      "(graph, seed) pairs. Averages are plain means of cells; “overall” is the plain mean of the datasets' averages. "
      "Best first by the last column.",
      kResamples)});
  if (published != nullptr) blocks->push_back(ParagraphBlock{"Published figures: " + published->source + "."});
  const std::string where = runs.name + ": metrics";
  for (const std::string& name : MetricsToReport(runs)) {
    const MetricEntry& metric = FindMetric(name, where);
    const MetricTable table = MakeMetricTable(runs.trials, grid, metric, published);
    if (!HasValues(table)) {
      blocks->push_back(ParagraphBlock{fmt::format("{}: no trial has any.", metric.title)});
      continue;
    }
    blocks->push_back(ShowTable(table));
    if (metric.name == "pc_ratio") AddPolicyCost(runs, grid, blocks);
  }
}

TableBlock ShowTests(const std::vector<PairedTest>& tests, const std::string& title, PairedQuantity quantity) {
  TableBlock block;
  block.caption = title;
  block.text_columns = 2;
  const bool percent = quantity == PairedQuantity::kLogStepTime;
  block.header = {"better",
                  "worse",
                  percent ? "faster by, log %" : "difference, points",
                  "pairs",
                  "p, Holm",
                  "graphs",
                  "p over graphs, Holm"};
  for (const PairedTest& test : tests) {
    block.rows.push_back({{test.better},
                          {test.worse},
                          ShowEstimate(test.difference),
                          {std::to_string(test.pairs)},
                          {ShownPValue(test.adjusted_pairs), test.adjusted_pairs < 0.05},
                          {std::to_string(test.graphs)},
                          {ShownPValue(test.adjusted_graphs), test.adjusted_graphs < 0.05}});
  }
  return block;
}

void AddTestTables(const ExperimentRuns& runs, const ReportGrid& grid, PairedQuantity quantity, const std::string& what,
                   Blocks* blocks) {
  std::vector<std::size_t> all(grid.columns.size());
  for (std::size_t c = 0; c < all.size(); ++c) all[c] = c;
  const auto add = [&](const std::vector<std::size_t>& columns, const std::string& title, bool folded) {
    const auto tests = MakePairedTests(runs.trials, grid, columns, quantity);
    if (tests.empty()) return;
    TableBlock block = ShowTests(tests, title, quantity);
    block.folded = folded;
    blocks->push_back(std::move(block));
  };
  add(all, what, false);
  const auto groups = ColumnsByDataset(grid);
  if (groups.size() < 2) return;
  for (const auto& group : groups) add(group, fmt::format("{}, {}", what, grid.columns[group[0]][0]), true);
}

void AddTests(const ExperimentRuns& runs, const ReportGrid& grid, Blocks* blocks) {
  if (grid.labels.size() < 2) return;
  Blocks tables;
  const PairedQuantity quantity = QuantityToPair(runs.trials);
  AddTestTables(runs, grid, quantity, quantity == PairedQuantity::kImprovement ? "Improvement" : kLogCaption, &tables);
  const bool starts_differ = quantity == PairedQuantity::kImprovement && StartsDiffer(runs.trials, grid);
  if (starts_differ) AddTestTables(runs, grid, PairedQuantity::kLogStepTime, kLogCaption, &tables);
  AddTestTables(runs, grid, PairedQuantity::kTransferImprovement, "Improvement on graphs not trained on", &tables);
  if (tables.empty()) return;
  blocks->push_back(HeadingBlock{3, "Paired comparisons"});
  blocks->push_back(ParagraphBlock{
      "A pair is the same graph, cluster and seed. Two-sided Wilcoxon signed-rank tests, corrected by Holm over all "
      "rows of a table; the mean difference with its 95 % bootstrap interval (graphs, then their pairs). Pairs of one "
      "graph are not independent, so the test is also done over each graph's mean difference."});
  if (starts_differ) {
    blocks->push_back(ParagraphBlock{
        "Agents start from different placements here: improvement is over each one's own start, step time is not."});
  }
  blocks->insert(blocks->end(), tables.begin(), tables.end());
}

void AddCurves(const ExperimentRuns& runs, const ReportGrid& grid, Blocks* blocks) {
  const std::string note =
      "Mean over graphs, and the 95 % band of a bootstrap over them (over seeds if there is one graph).";
  blocks->push_back(HeadingBlock{3, "Learning curves"});
  const auto groups = ColumnsByDataset(grid);
  const bool starts_differ = StartsDiffer(runs.trials, grid);
  for (const auto& group : groups) {
    const std::string of = groups.size() > 1 ? ", " + grid.columns[group[0]][0] : "";
    const auto add = [&](const std::vector<Curve>& curves, const std::string& caption,
                         const CurveChartOptions& options) {
      if (!curves.empty()) blocks->push_back(ChartBlock{caption + of, note, CurveChart(curves, options)});
    };
    const ImprovementOver over = starts_differ ? ImprovementOver::kSingleDevice : ImprovementOver::kStart;
    add(ImprovementCurves(runs.trials, grid, group, over), "Best so far against evaluations",
        {.x_title = "evaluations",
         .y_title = starts_differ ? "improvement over everything on one device, %" : "improvement, %",
         .labels = grid.labels,
         .log_x = true});
    add(SampleCurves(runs.trials, grid, group), "Mean step time of drawn placements against evaluations",
        {.x_title = "evaluations",
         .y_title = "step time, of the single device's",
         .labels = grid.labels,
         .log_x = true});
    add(EntropyCurves(runs.trials, grid, group), "Policy entropy against episodes",
        {.x_title = "episode", .y_title = "entropy, of the largest possible", .labels = grid.labels, .log_x = false});
  }
}

// The trial with the largest improvement over everything on one device (where agents begin differs) among those with a
// placement; the first by id of equal ones.
const TrialRecord* BestTrial(const ExperimentRuns& runs, const ReportGrid& grid,
                             const std::vector<std::size_t>& group) {
  const TrialRecord* best = nullptr;
  double best_ratio = 0;
  for (std::size_t t = 0; t < runs.trials.size(); ++t) {
    const TrialRecord& trial = runs.trials[t];
    if (std::find(group.begin(), group.end(), grid.column_of[t]) == group.end()) continue;
    const GraphRecord& graph = trial.graphs[0];
    const std::optional<double>& base = graph.single_device_micros ? graph.single_device_micros : graph.start_micros;
    if (!graph.best_micros || !base || *base <= 0) continue;
    if (!std::filesystem::exists(trial.folder + "/best_placement.json")) continue;
    const double ratio = *graph.best_micros / *base;
    if (best != nullptr && ratio >= best_ratio) continue;
    best = &trial;
    best_ratio = ratio;
  }
  return best;
}

ReportBlock ShowPicture(const TrialRecord& trial, const RebuildProblem& rebuild) {
  const std::string name = fmt::format("{} ({})", DescribeSpec(trial.spec), trial.id);
  const std::optional<PictureInputs> inputs = rebuild ? rebuild(trial.spec) : std::nullopt;
  if (!inputs) return ParagraphBlock{"No picture of " + name + ": its graph cannot be rebuilt here."};
  const std::string file = trial.folder + "/best_placement.json";
  const std::string text = ReadWholeFile(file);
  if (!trial.placement_fingerprint.empty() && FingerprintText(text) != trial.placement_fingerprint) {
    throw InputError(file,
                     "is not what trial.json was written with: it is damaged or was changed (without trial.json "
                     "the same sweep runs the trial again)");
  }
  std::istringstream in(text);
  const Placement placement = ReadPlacement(in, file, inputs->graph, inputs->cluster);
  const PlacementPicture picture =
      MakePlacementPicture(inputs->graph, inputs->cluster, inputs->costs, inputs->engine, placement);
  const std::string note = fmt::format(
      "{}: {} ms a step. Each dot an op, larger if it takes longer; colours are devices; lines are the {} "
      "heaviest of {} tensors sent. {} of no time or of the shortest are not drawn.",
      name, ShownNumber(picture.step_time_micros / 1000), picture.lines.size(),
      picture.lines.size() + picture.lines_left_out, Counted(picture.ops_left_out, "op"));
  return ChartBlock{"Best placement of " + picture.graph, note, PictureChart(picture)};
}

void AddPictures(const ExperimentRuns& runs, const ReportGrid& grid, const RebuildProblem& rebuild, Blocks* blocks) {
  Blocks pictures;
  for (const auto& group : ColumnsByDataset(grid)) {
    if (const TrialRecord* best = BestTrial(runs, grid, group)) pictures.push_back(ShowPicture(*best, rebuild));
  }
  if (pictures.empty()) return;
  blocks->push_back(HeadingBlock{3, "Best placements"});
  blocks->insert(blocks->end(), pictures.begin(), pictures.end());
}

void AddExperiment(const ExperimentRuns& runs, const RebuildProblem& rebuild, Blocks* blocks) {
  blocks->push_back(HeadingBlock{2, runs.name});
  if (!runs.question.empty()) blocks->push_back(ParagraphBlock{runs.question});
  AddWhatRan(runs, blocks);
  if (runs.trials.empty()) return;
  std::optional<PublishedFigures> published;
  if (!runs.published.empty()) published = LoadPublished(runs.published);
  const ReportGrid grid = MakeReportGrid(runs.trials);
  AddMetrics(runs, grid, published ? &*published : nullptr, blocks);
  const Blocks hardware = HardwareBlocks(runs.trials, grid.labels);
  blocks->insert(blocks->end(), hardware.begin(), hardware.end());
  AddTests(runs, grid, blocks);
  AddCurves(runs, grid, blocks);
  AddPictures(runs, grid, rebuild, blocks);
}

}  // namespace

ReportDocument MakeReport(const std::vector<ExperimentRuns>& experiments, const RebuildProblem& rebuild) {
  ReportDocument document;
  document.title = experiments.size() == 1 ? "emplace report: " + experiments[0].name : "emplace report";
  for (const ExperimentRuns& runs : experiments) AddExperiment(runs, rebuild, &document.blocks);
  return document;
}

}  // namespace emplace
