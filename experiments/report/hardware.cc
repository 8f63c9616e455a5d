#include "experiments/report/hardware.h"

#include <fmt/format.h>

#include <iterator>
#include <map>

#include "experiments/report/charts.h"
#include "experiments/report/grid.h"
#include "experiments/validation/validation.h"

namespace emplace::experiments {
namespace {

bool SimulatorRewards(const TrialRecord& trial) {
  const JsonValue* source = FindPath(trial.spec, "hardware.reward_source");
  return source != nullptr && PlainText(*source) == "simulator";
}

std::vector<TextCell> RowOf(const std::string& what, const std::vector<HardwarePoint>& points) {
  std::vector<double> simulated;
  std::vector<double> measured;
  for (const HardwarePoint& point : points) {
    simulated.push_back(point.simulated_micros);
    measured.push_back(point.measured_micros);
  }
  const StepErrors errors = CompareSteps(simulated, measured);
  const auto percent = [](double part) { return fmt::format("{:.1f}", 100 * part); };
  return {{what},
          {fmt::format("{}", points.size())},
          {percent(errors.median)},
          {percent(errors.p90)},
          {percent(errors.largest)},
          {fmt::format("{:+.1f}", 100 * errors.mean_signed)},
          {errors.spearman ? fmt::format("{:.3f}", *errors.spearman) : "–"}};
}

ChartBlock ChartOf(const std::string& what, const std::vector<HardwarePoint>& points,
                   const std::vector<std::string>& labels) {
  ScatterChartOptions options{.x_title = "measured, ms", .y_title = "simulated, ms", .labels = labels};
  std::vector<ScatterPoint> shown;
  shown.reserve(points.size());
  for (const HardwarePoint& point : points) {
    shown.push_back({point.label, point.measured_micros / 1000, point.simulated_micros / 1000});
  }
  return {"Simulated against measured, " + what, "A dot for each placement; on the line both agree.",
          ScatterChart(shown, options)};
}

// The points with op times measured between the steps, with those simulated times instead of the profile's.
std::vector<HardwarePoint> Interleaved(const std::vector<HardwarePoint>& points) {
  std::vector<HardwarePoint> interleaved;
  for (const HardwarePoint& point : points) {
    if (!point.interleaved_micros) continue;
    interleaved.push_back(point);
    interleaved.back().simulated_micros = *point.interleaved_micros;
  }
  return interleaved;
}

}  // namespace

std::vector<HardwarePoint> HardwarePoints(const std::vector<TrialRecord>& trials) {
  std::vector<HardwarePoint> points;
  for (const TrialRecord& trial : trials) {
    if (!trial.timing || !trial.timing->hardware) continue;
    const auto add = [&](double simulated, double measured, std::optional<double> interleaved = {}) {
      points.push_back({GraphGroup(trial), trial.label, simulated, measured, interleaved});
    };
    for (const HardwareCheck& check : trial.timing->hardware->checks) {
      if (check.measured_micros) add(check.simulated_micros, *check.measured_micros);
    }
    const MeasuredSteps& measured = *trial.timing->hardware;
    if (!SimulatorRewards(trial) || !measured.best_micros || !trial.graphs[0].best_micros) continue;
    add(*trial.graphs[0].best_micros, *measured.best_micros, measured.interleaved_micros);
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
  std::vector<ReportBlock> charts;
  for (const auto& [graph, points] : by_graph) {
    table.rows.push_back(RowOf(graph, points));
    charts.push_back(ChartOf(graph, points, labels));
    const std::vector<HardwarePoint> interleaved = Interleaved(points);
    if (interleaved.empty()) continue;
    const std::string what = graph + ", op times taken between the steps";
    table.rows.push_back(RowOf(what, interleaved));
    charts.push_back(ChartOf(what, interleaved, labels));
  }
  blocks.push_back(std::move(table));
  blocks.insert(blocks.end(), std::make_move_iterator(charts.begin()), std::make_move_iterator(charts.end()));
  return blocks;
}

}  // namespace emplace::experiments
