#include "agents/throughput/load_report.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "agents/throughput/max_load_bound.h"
#include "sim/base/human_readable.h"
#include "sim/base/json_text.h"
#include "sim/base/printable.h"
#include "sim/base/table.h"
#include "sim/bounds.h"

namespace emplace::agents {

StepReport MakeLoadReport(const Graph& graph, const Cluster& cluster, const CostTable& costs, const StageCosts& loads,
                          const Placement& placement) {
  StepReport report{.graph = graph.name(),
                    .cluster = cluster.name(),
                    .engine = {},
                    .costs = {},
                    .devices = {},
                    .ops = graph.num_ops(),
                    .fallback_ops = costs.fallback_ops()};
  std::vector<std::optional<Bytes>> memory(cluster.num_devices());
  for (const DeviceClass& of_class : loads.classes) {
    for (const DeviceId device : of_class.devices) memory[Index(device)] = of_class.memory;
  }
  const std::vector<DeviceLoad> counted = ComputeLoads(graph, cluster, costs, placement);
  const std::vector<StageLoad> of_devices = StageLoads(loads, placement);
  for (std::size_t d = 0; d < cluster.num_devices(); ++d) {
    report.devices.push_back({.name = cluster.devices()[d].name,
                              .ops = counted[d].ops,
                              .busy_micros = of_devices[d].op_micros,
                              .sent = counted[d].sent,
                              .peak = of_devices[d].bytes,
                              .memory = memory[d],
                              .crossing_micros = of_devices[d].crossing_micros});
    report.step_time_micros = std::max(report.step_time_micros, of_devices[d].micros());
    report.busiest_device_micros = std::max(report.busiest_device_micros, of_devices[d].op_micros);
    report.tensors_sent += counted[d].tensors_sent;
    report.fits_memory = report.fits_memory && (!memory[d] || of_devices[d].bytes <= *memory[d]);
  }
  report.lower_bound_micros = std::min(MaxLoadBoundMicros(graph, loads), report.step_time_micros);
  return report;
}

void PrintLoadReport(std::ostream& out, const StepReport& report) {
  out << fmt::format("{} on {}, objective throughput\n", Printable(report.graph), Printable(report.cluster));
  out << fmt::format("max load     {} for each micro-batch{}\n", HumanReadableMicros(report.step_time_micros),
                     report.fits_memory ? "" : "   DOES NOT FIT in memory");
  out << fmt::format("lower bound  {}", HumanReadableMicros(report.lower_bound_micros));
  if (report.lower_bound_micros > 0) {
    out << fmt::format(" (all work on all devices, or the largest op; the max load is {:.2f} times that)",
                       report.step_time_micros / report.lower_bound_micros);
  }
  out << fmt::format("\n{}, {} sent", Counted(report.ops, "op"), Counted(report.tensors_sent, "tensor"));
  if (report.fallback_ops > 0) {
    out << fmt::format(", {} with times of the fallback", Counted(report.fallback_ops, "op"));
  }
  out << "\n\n";
  Table table({"device", "ops", "load", "load %", "of its ops", "of transfers", "sent", "bytes", "of", ""});
  for (const StepReport::DeviceRow& row : report.devices) {
    const double load = row.busy_micros + row.crossing_micros;
    const bool over = row.memory && row.peak > *row.memory;
    table.Add({row.name, std::to_string(row.ops), HumanReadableMicros(load),
               fmt::format("{:.1f}", report.step_time_micros > 0 ? 100 * load / report.step_time_micros : 0),
               HumanReadableMicros(row.busy_micros), HumanReadableMicros(row.crossing_micros), HumanReadable(row.sent),
               HumanReadable(row.peak), row.memory ? HumanReadable(*row.memory) : "no limit",
               over ? "over by " + HumanReadable(row.peak - *row.memory) : ""});
  }
  table.PrintText(out);
}

void WriteLoadResult(std::ostream& out, const StepReport& report) {
  fmt::print(out, R"({{"schema": "emplace.result", "version": 1, "graph": {}, "cluster": {},)",
             JsonString(report.graph), JsonString(report.cluster));
  if (!report.costs.empty()) fmt::print(out, R"( "costs": {},)", JsonString(report.costs));
  if (!report.costs_detail.empty()) fmt::print(out, R"( "costs_detail": {},)", JsonString(report.costs_detail));
  fmt::print(out, "\n \"objective\": \"throughput\", \"max_load_us\": {}, \"fits_memory\": {},\n",
             report.step_time_micros, report.fits_memory);
  if (report.one_device_micros) {
    fmt::print(out, " \"one_device_us\": {}, \"worse_than_one_device\": {},\n", *report.one_device_micros,
               report.step_time_micros > *report.one_device_micros);
  }
  fmt::print(out, " \"max_load_bound_us\": {},\n \"devices\": [", report.lower_bound_micros);
  const char* separator = "\n";
  for (const StepReport::DeviceRow& row : report.devices) {
    fmt::print(out, R"({}  {{"name": {}, "ops": {}, "busy_us": {}, "crossing_us": {}, "sent_bytes": {}, "bytes": {})",
               separator, JsonString(row.name), row.ops, row.busy_micros, row.crossing_micros, row.sent.count,
               row.peak.count);
    if (row.memory) fmt::print(out, R"(, "memory_bytes": {})", row.memory->count);
    out << "}";
    separator = ",\n";
  }
  fmt::print(out, "],\n \"ops\": {}, \"tensors_sent\": {}, \"fallback_ops\": {}}}\n", report.ops, report.tensors_sent,
             report.fallback_ops);
}

}  // namespace emplace::agents
