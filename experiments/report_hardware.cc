#include "experiments/report_hardware.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "experiments/report_charts.h"
#include "experiments/report_grid.h"
#include "experiments/statistics.h"
#include "experiments/validation.h"

namespace emplace {
namespace {

bool SimulatorRewards(const TrialRecord& trial) {
  const JsonValue* source = FindPath(trial.spec, "hardware.reward_source");
  return source != nullptr && PlainText(*source) == "simulator";
}

std::vector<TextCell> RowOf(const std::string& graph, const std::vector<HardwarePoint>& points) {
  std::vector<double> simulated;
  std::vector<double> measured;
  std::vector<double> errors;
  double sum = 0;
  for (const HardwarePoint& point : points) {
    simulated.push_back(point.simulated_micros);
    measured.push_back(point.measured_micros);
    const double error = 100 * (point.simulated_micros / point.measured_micros - 1);
    errors.push_back(std::abs(error));
    sum += error;
  }
  std::sort(errors.begin(), errors.end());
  const auto at = [&](double q) { return fmt::format("{:.1f}", Quantile(std::span<const double>(errors), q)); };
  const std::optional<double> spearman = SpearmanCorrelation(simulated, measured);
  return {{graph},
          {fmt::format("{}", points.size())},
          {at(0.5)},
          {at(0.9)},
          {at(1)},
          {fmt::format("{:+.1f}", sum / static_cast<double>(points.size()))},
          {spearman ? fmt::format("{:.3f}", *spearman) : "–"}};
}

}  // namespace

std::vector<HardwarePoint> HardwarePoints(const std::vector<TrialRecord>& trials) {
  std::vector<HardwarePoint> points;
  for (const TrialRecord& trial : trials) {
    if (!trial.timing) continue;
    const auto add = [&](double simulated, double measured) {
      points.push_back({GraphGroup(trial), trial.label, simulated, measured});
    };
    for (const HardwareRecord& check : trial.timing->checks) add(check.simulated_micros, check.measured_micros);
    if (!SimulatorRewards(trial) || !trial.timing->measured_best_micros || !trial.graphs[0].best_micros) continue;
    add(*trial.graphs[0].best_micros, *trial.timing->measured_best_micros);
  }
  return points;
}

std::vector<ReportBlock> HardwareBlocks(const std::vector<TrialRecord>& trials,
                                        const std::vector<std::string>& labels) {
  std::map<std::string, std::vector<HardwarePoint>> by_graph;
  for (HardwarePoint& point : HardwarePoints(trials)) by_graph[point.graph].push_back(std::move(point));
  if (by_graph.empty()) return {};
  std::vector<ReportBlock> blocks;
  blocks.push_back(HeadingBlock{3, "Simulated against measured"});
  TableBlock table;
  table.caption = "Error of the simulated step time, % of the measured one";
  table.header = {"graph", "placements", "median", "90th percentile", "largest", "mean, signed", "Spearman"};
  for (const auto& [graph, points] : by_graph) table.rows.push_back(RowOf(graph, points));
  blocks.push_back(std::move(table));
  for (const auto& [graph, points] : by_graph) {
    ScatterChartOptions options{.x_title = "measured, ms", .y_title = "simulated, ms", .labels = labels};
    std::vector<ScatterPoint> shown;
    for (const HardwarePoint& point : points) {
      shown.push_back({point.label, point.measured_micros / 1000, point.simulated_micros / 1000});
    }
    blocks.push_back(ChartBlock{"Simulated against measured, " + graph,
                                "A dot for each placement; on the line both agree.", ScatterChart(shown, options)});
  }
  return blocks;
}

}  // namespace emplace
