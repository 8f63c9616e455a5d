#include "sim/formats/report_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <ostream>
#include <utility>
#include <vector>

#include "sim/base/human_readable.h"
#include "sim/base/printable.h"
#include "sim/base/table.h"

namespace emplace {

std::string HeadLine(std::string_view graph, std::string_view cluster, std::string_view engine, std::string_view costs,
                     std::string_view costs_detail) {
  const std::string_view estimated = costs.starts_with("roofline") ? " (estimates)" : "";
  return fmt::format("{} on {}, engine {}{}{}{}{}{}", Printable(graph), Printable(cluster), engine,
                     costs.empty() ? "" : ", costs ", Printable(costs), estimated,
                     costs_detail.empty() ? "" : "\ncosts        ", Printable(costs_detail));
}

std::string HeadLine(const StepReport& report) {
  return HeadLine(report.graph, report.cluster, report.engine, report.costs, report.costs_detail);
}

Bytes LargestPeak(const StepReport& report) {
  Bytes largest;
  for (const StepReport::DeviceRow& row : report.devices) largest = std::max(largest, row.peak);
  return largest;
}

namespace {

void PrintReportHead(std::ostream& out, const StepReport& report) {
  out << HeadLine(report) << '\n';
  out << fmt::format("step time    {}{}\n", HumanReadableMicros(report.step_time_micros),
                     report.fits_memory ? "" : "   DOES NOT FIT in memory");
}

}  // namespace

void PrintExplanationHead(std::ostream& out, const StepReport& report) {
  PrintReportHead(out, report);
  out << fmt::format("lower bound  {} ({})\n", HumanReadableMicros(report.lower_bound_micros),
                     report.lower_bound_method);
}

void PrintStepReport(std::ostream& out, const StepReport& report) {
  PrintReportHead(out, report);
  out << fmt::format("lower bound  {}", HumanReadableMicros(report.lower_bound_micros));
  if (report.lower_bound_micros > 0) {
    out << fmt::format(" ({}; the step takes {:.2f} times that)", report.lower_bound_method,
                       report.step_time_micros / report.lower_bound_micros);
  }
  out << fmt::format("; critical path {}, busiest device {}\n", HumanReadableMicros(report.critical_path_micros),
                     HumanReadableMicros(report.busiest_device_micros));
  if (report.schedule) {
    const StepReport::ScheduleRow& schedule = *report.schedule;
    const double rate = schedule.throughput_steps_per_s;
    out << fmt::format("schedule     {}, {}: {} steps/s, {:.4g} % bubble, {} of communication exposed\n",
                       Printable(schedule.name), Counted(schedule.micro_batches, "micro-batch"),
                       rate < 1000 ? fmt::format("{:.4g}", rate) : fmt::format("{:.0f}", rate), schedule.bubble_percent,
                       HumanReadableMicros(schedule.exposed_communication_micros));
    out << fmt::format("max load     {} for each micro-batch\n", HumanReadableMicros(schedule.max_load_micros));
    if (schedule.steady_state) {
      out << fmt::format("steady state {} for each further micro-batch: {}\n",
                         HumanReadableMicros(schedule.steady_state->micros_per_micro_batch),
                         Printable(schedule.steady_state->bottleneck));
    }
  }
  out << fmt::format("{}, {} sent", Counted(report.ops, "op"), Counted(report.tensors_sent, "tensor"));
  if (report.fallback_ops > 0) {
    out << fmt::format(", {} with times of the fallback", Counted(report.fallback_ops, "op"));
  }
  out << "\n\n";
  std::vector<std::string> header = {"device", "ops", "busy", "busy %", "sent", "peak memory", "of", ""};
  if (report.schedule) header.insert(header.end() - 3, "held");
  Table table(header);
  for (const StepReport::DeviceRow& row : report.devices) {
    const double share = report.step_time_micros > 0 ? 100 * row.busy_micros / report.step_time_micros : 0;
    const bool over = row.memory && row.peak > *row.memory;
    std::vector<std::string> cells = {row.name,
                                      std::to_string(row.ops),
                                      HumanReadableMicros(row.busy_micros),
                                      fmt::format("{:.1f}", share),
                                      HumanReadable(row.sent),
                                      HumanReadable(row.peak),
                                      row.memory ? HumanReadable(*row.memory) : "no limit",
                                      over ? "over by " + HumanReadable(row.peak - *row.memory) : ""};
    if (report.schedule) cells.insert(cells.end() - 3, std::to_string(row.micro_batches_held));
    table.Add(std::move(cells));
  }
  table.PrintText(out);
}

}  // namespace emplace
