#include "sim/formats/result_json.h"

#include <fmt/format.h>
#include <fmt/ostream.h>

#include <algorithm>
#include <ostream>

#include "sim/base/check.h"
#include "sim/base/json_text.h"

namespace emplace {
namespace {

// How often ops run at least, whatever the placement: sums of weights' gradients may run once.
std::vector<std::int64_t> Repeats(const Graph& graph, const std::vector<PipelineRole>& roles,
                                  std::size_t micro_batches) {
  std::vector<std::int64_t> times(graph.num_ops(), 1);
  for (std::size_t i = 0; i < times.size(); ++i) {
    bool repeated = roles[i] != PipelineRole::kSourceOp && roles[i] != PipelineRole::kFinalOp;
    for (const TensorId tensor : graph.inputs(MakeId<OpId>(i))) {
      const bool sums =
          roles[i] == PipelineRole::kWeightOp && roles[Index(graph.tensor(tensor).producer)] == PipelineRole::kWeightOp;
      repeated = repeated && !sums;
    }
    if (repeated) times[i] = static_cast<std::int64_t>(micro_batches);
  }
  return times;
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
                    .lower_bound_method = std::string(bounds.lower_bound_method),
                    .critical_path_micros = bounds.critical_path_micros,
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

StepReport MakeScheduleReport(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                              const Placement& placement, const std::string& name, const PipelineSchedule& schedule,
                              const PlacedPipeline& pipeline, const ScheduleResult& result) {
  const std::vector<DeviceLoad> loads = ComputeLoads(graph, cluster, costs, placement);
  StepReport report{.graph = graph.name(),
                    .cluster = cluster.name(),
                    .engine = "fifo",
                    .costs = {},
                    .step_time_micros = MicrosFromDuration(result.step_time),
                    .devices = {},
                    .ops = graph.num_ops(),
                    .fallback_ops = costs.fallback_ops()};
  const Bounds bounds = ComputeBounds(graph, cluster, costs);
  report.critical_path_micros = bounds.critical_path_micros;
  const double work = RepeatedWorkMicros(graph, cluster, costs, Repeats(graph, pipeline.roles, schedule.micro_batches));
  report.lower_bound_micros = std::max(bounds.critical_path_micros, work);
  if (work > bounds.critical_path_micros) report.lower_bound_method = kWorkBound;
  for (std::size_t d = 0; d < cluster.num_devices(); ++d) {
    const Device& device = cluster.devices()[d];
    report.devices.push_back(
        {.name = device.name, .ops = loads[d].ops, .sent = {}, .peak = {}, .memory = device.memory});
  }
  for (std::size_t rank = 0; rank < pipeline.devices.size(); ++rank) {
    StepReport::DeviceRow& row = report.devices[Index(pipeline.devices[rank])];
    row.busy_micros = MicrosFromDuration(result.ranks[rank].busy);
    row.peak = result.ranks[rank].peak;
    row.micro_batches_held = result.ranks[rank].micro_batches_held;
    report.busiest_device_micros = std::max(report.busiest_device_micros, row.busy_micros);
    report.fits_memory = report.fits_memory && (!row.memory || row.peak <= *row.memory);
  }
  const auto count = [&](const PipelineRoute& route, std::size_t times) {
    report.tensors_sent += route.tensors * times;
    if (route.from == route.to) return;
    report.devices[Index(pipeline.devices[route.from])].sent +=
        Bytes{route.size.count * static_cast<std::int64_t>(times)};
  };
  for (const PipelineMessage& message : pipeline.model.messages) {
    count(message.route, message.once ? 1 : schedule.micro_batches);
  }
  for (const FinalMessage& message : pipeline.model.final_messages) count(message.route, 1);
  const double step_micros = report.step_time_micros;
  report.schedule = {.name = name,
                     .micro_batches = schedule.micro_batches,
                     .throughput_steps_per_s = step_micros > 0 ? 1e6 / step_micros : 0,
                     .bubble_percent = result.bubble_percent,
                     .exposed_communication_micros = MicrosFromDuration(result.exposed_communication),
                     .max_load_micros = MicrosFromDuration(result.max_load)};
  return report;
}

namespace {

// fmt prints a double in the shortest form that reads back to it.
void WriteOneDevice(std::ostream& out, const StepReport& report) {
  if (!report.one_device_micros) return;
  fmt::print(out, " \"one_device_us\": {}, \"worse_than_one_device\": {},\n", *report.one_device_micros,
             report.step_time_micros > *report.one_device_micros);
}

}  // namespace

void WriteResult(std::ostream& out, const StepReport& report) {
  fmt::print(out, R"({{"schema": "emplace.result", "version": 1, "graph": {}, "cluster": {}, "engine": {},)",
             JsonString(report.graph), JsonString(report.cluster), JsonString(report.engine));
  if (!report.costs.empty()) fmt::print(out, R"( "costs": {},)", JsonString(report.costs));
  if (!report.costs_detail.empty()) fmt::print(out, R"( "costs_detail": {},)", JsonString(report.costs_detail));
  fmt::print(out, "\n \"step_time_us\": {}, \"fits_memory\": {},\n", report.step_time_micros, report.fits_memory);
  WriteOneDevice(out, report);
  const std::string method = JsonString(report.lower_bound_method);
  fmt::print(out, " \"lower_bound_us\": {}, \"lower_bound_method\": {},\n", report.lower_bound_micros, method);
  fmt::print(out, " \"critical_path_us\": {}, \"busiest_device_us\": {},\n", report.critical_path_micros,
             report.busiest_device_micros);
  if (!report.schedule) {  // the same under earlier names
    fmt::print(out, " \"best_bound_us\": {}, \"best_bound_method\": {},\n", report.lower_bound_micros, method);
  } else {
    const StepReport::ScheduleRow& schedule = *report.schedule;
    fmt::print(out, " \"schedule\": {}, \"micro_batches\": {}, \"throughput_steps_per_s\": {},\n",
               JsonString(schedule.name), schedule.micro_batches, schedule.throughput_steps_per_s);
    fmt::print(out, " \"bubble_percent\": {}, \"exposed_communication_us\": {}, \"max_load_us\": {},\n",
               schedule.bubble_percent, schedule.exposed_communication_micros, schedule.max_load_micros);
    if (schedule.steady_state) {
      fmt::print(out, " \"steady_state_us_per_micro_batch\": {}, \"steady_state_bottleneck\": {},\n",
                 schedule.steady_state->micros_per_micro_batch, JsonString(schedule.steady_state->bottleneck));
    }
  }
  out << " \"devices\": [";
  const char* separator = "\n";
  for (const StepReport::DeviceRow& row : report.devices) {
    fmt::print(out, R"({}  {{"name": {}, "ops": {}, "busy_us": {}, "sent_bytes": {}, "peak_bytes": {})", separator,
               JsonString(row.name), row.ops, row.busy_micros, row.sent.count, row.peak.count);
    if (row.memory) fmt::print(out, R"(, "memory_bytes": {})", row.memory->count);
    if (report.schedule) fmt::print(out, R"(, "micro_batches_held": {})", row.micro_batches_held);
    out << "}";
    separator = ",\n";
  }
  fmt::print(out, "],\n \"ops\": {}, \"tensors_sent\": {}, \"fallback_ops\": {}}}\n", report.ops, report.tensors_sent,
             report.fallback_ops);
}

}  // namespace emplace
