#include "sim/formats/result_json.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <ostream>

#include "sim/base/check.h"
#include "sim/base/json_text.h"

namespace emplace {
namespace {

std::string JsonString(const std::string& text) {
  std::string quoted;
  AppendQuoted(&quoted, text);
  return quoted;
}

}  // namespace

StepReport MakeStepReport(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                          const Placement& placement, const std::string& engine, const StepResult& result) {
  EMPLACE_CHECK_EQ(result.peak_memory.size(), cluster.num_devices());
  const Bounds bounds = ComputeBounds(graph, cluster, costs);
  const std::vector<DeviceLoad> loads = ComputeLoads(graph, cluster, costs, placement);
  StepReport report{.graph = graph.name(),
                    .cluster = cluster.name(),
                    .engine = engine,
                    .costs = {},
                    .step_time_micros = result.step_time_micros,
                    .fits_memory = result.fits_memory,
                    .lower_bound_micros = bounds.lower_bound_micros,
                    .critical_path_micros = bounds.critical_path_micros,
                    .best_bound_method = {},
                    .devices = {},
                    .ops = graph.num_ops(),
                    .fallback_ops = costs.fallback_ops()};
  // Bounds are of times rounded to ns, as fifo rounds them; an engine that does not round may end that little earlier.
  report.critical_path_micros = std::min(report.critical_path_micros, result.step_time_micros);
  report.lower_bound_micros = std::min(report.lower_bound_micros, result.step_time_micros);
  for (std::size_t d = 0; d < cluster.num_devices(); ++d) {
    const Device& device = cluster.devices()[d];
    report.devices.push_back({.name = device.name,
                              .ops = loads[d].ops,
                              .busy_micros = loads[d].busy_micros,
                              .sent = loads[d].sent,
                              .peak = result.peak_memory[d],
                              .memory = device.memory});
    report.busiest_device_micros = std::max(report.busiest_device_micros, loads[d].busy_micros);
    report.tensors_sent += loads[d].tensors_sent;
  }
  return report;
}

// fmt prints a double in the shortest form that reads back to it.
void WriteResult(std::ostream& out, const StepReport& report) {
  fmt::print(out, R"({{"schema": "emplace.result", "version": 1, "graph": {}, "cluster": {}, "engine": {},)",
             JsonString(report.graph), JsonString(report.cluster), JsonString(report.engine));
  if (!report.costs.empty()) fmt::print(out, R"( "costs": {},)", JsonString(report.costs));
  fmt::print(out, "\n \"step_time_us\": {}, \"fits_memory\": {},\n", report.step_time_micros, report.fits_memory);
  fmt::print(out, " \"lower_bound_us\": {}, \"critical_path_us\": {}, \"busiest_device_us\": {},\n",
             report.lower_bound_micros, report.critical_path_micros, report.busiest_device_micros);
  if (!report.best_bound_method.empty()) {
    fmt::print(out, " \"best_bound_us\": {}, \"best_bound_method\": {},\n", report.best_bound_micros,
               JsonString(report.best_bound_method));
  }
  out << " \"devices\": [";
  const char* separator = "\n";
  for (const StepReport::DeviceRow& row : report.devices) {
    fmt::print(out, R"({}  {{"name": {}, "ops": {}, "busy_us": {}, "sent_bytes": {}, "peak_bytes": {})", separator,
               JsonString(row.name), row.ops, row.busy_micros, row.sent.count, row.peak.count);
    if (row.memory) fmt::print(out, R"(, "memory_bytes": {})", row.memory->count);
    out << "}";
    separator = ",\n";
  }
  fmt::print(out, "],\n \"ops\": {}, \"tensors_sent\": {}, \"fallback_ops\": {}}}\n", report.ops, report.tensors_sent,
             report.fallback_ops);
}

}  // namespace emplace
