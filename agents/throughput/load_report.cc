#include "agents/throughput/load_report.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "agents/throughput/max_load_bound.h"
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
                    .fallback_ops = costs.fallback_ops(),
                    .is_max_load = true};
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

}  // namespace emplace::agents
