#include "experiments/validation/replay.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <ostream>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/statistics.h"
#include "sim/cost/cost_models.h"
#include "sim/cost_model.h"
#include "sim/simulator.h"

namespace emplace::experiments {
namespace {

using Json = nlohmann::ordered_json;
using MeasuredRun = datasets::MeasuredStep::Run;

struct Interval {
  double start = 0;
  double end = 0;
};

double UnionOf(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end(), [](const Interval& a, const Interval& b) { return a.start < b.start; });
  double sum = 0;
  double until = 0;
  for (const Interval& interval : intervals) {
    sum += std::max(0.0, interval.end - std::max(interval.start, until));
    until = std::max(until, interval.end);
  }
  return sum;
}

// When things happen in one of the two steps, measured or simulated.
struct Course {
  std::vector<Interval> ops;   // by OpId
  std::vector<Interval> runs;  // as MeasuredStep::runs
  double step_time = 0;
};

class ReplayComparison {
 public:
  explicit ReplayComparison(const datasets::Imported& imported)
      : graph_(imported.graph),
        cluster_(*imported.cluster),
        placement_(*imported.placement),
        measured_(*imported.measured),
        runs_of_(cluster_.num_devices()) {
    for (std::size_t r = 0; r < measured_.runs.size(); ++r) {
      runs_of_[Index(placement_[measured_.runs[r].last])].push_back(r);
    }
  }

  double GpuBusy(const Course& course) const {
    std::vector<std::vector<Interval>> by_gpu(measured_.gpus.size());
    for (std::size_t r = 0; r < course.runs.size(); ++r) {
      by_gpu[measured_.gpu_of[Index(placement_[measured_.runs[r].last])]].push_back(course.runs[r]);
    }
    double sum = 0;
    for (auto& intervals : by_gpu) sum += UnionOf(std::move(intervals));
    return sum;
  }

  double Busy(const Course& course, std::size_t device) const {
    std::vector<Interval> intervals;
    for (const std::size_t r : runs_of_[device]) intervals.push_back(course.runs[r]);
    return UnionOf(std::move(intervals));
  }

  std::array<double, kNumIdleCauses> Idle(const Course& course, std::size_t device) const {
    std::array<double, kNumIdleCauses> idle{};
    const auto add = [&](IdleCause cause, double from, double to) {
      idle[static_cast<std::size_t>(cause)] += std::max(0.0, to - from);
    };
    double free = 0;
    for (const std::size_t r : runs_of_[device]) {
      const MeasuredRun& run = measured_.runs[r];
      const double start = course.runs[r].start;
      double launched = 0;
      double joined = 0;
      for (const OpId before : graph_.control_inputs(run.first)) {
        const std::size_t at = Index(placement_[before]);
        if (at == device) continue;
        double& last = measured_.gpu_of[at] == datasets::MeasuredStep::kNoGpu ? launched : joined;
        last = std::max(last, course.ops[Index(before)].end);
      }
      // The host comes first: what is not launched cannot wait for a stream.
      const double host_until = std::clamp(launched, free, std::max(free, start));
      const double sync_until = std::clamp(joined, host_until, std::max(host_until, start));
      add(IdleCause::kHost, free, host_until);
      add(IdleCause::kSync, host_until, sync_until);
      add(IdleCause::kKernel, sync_until, start);
      free = std::max(free, course.runs[r].end);
    }
    add(IdleCause::kHost, free, course.step_time);
    return idle;
  }

  std::vector<std::size_t> Streams() const {
    std::vector<std::size_t> streams;
    for (std::size_t d = 0; d < cluster_.num_devices(); ++d) {
      if (measured_.gpu_of[d] != datasets::MeasuredStep::kNoGpu) streams.push_back(d);
    }
    return streams;
  }
  std::size_t NumRuns(std::size_t device) const { return runs_of_[device].size(); }

 private:
  const Graph& graph_;
  const Cluster& cluster_;
  const Placement& placement_;
  const datasets::MeasuredStep& measured_;
  std::vector<std::vector<std::size_t>> runs_of_;  // by device, in their order
};

}  // namespace

Replay MakeReplay(const datasets::Imported& imported) {
  EMPLACE_CHECK(imported.cluster && imported.placement && imported.measured);
  const Graph& graph = imported.graph;
  const datasets::MeasuredStep& step = *imported.measured;
  const CostTable costs(graph, *imported.cluster, *MakeMeasuredCostModel());
  CheckPlacement(*imported.placement, graph, *imported.cluster, costs);
  const SimOptions options{.peak_memory = false};
  const Simulator simulator(graph, *imported.cluster, costs, options);
  const Timeline timeline = simulator.Record(*imported.placement);

  Course simulated;
  simulated.ops.resize(graph.num_ops());
  for (const Timeline::OpRun& run : timeline.ops) {
    simulated.ops[Index(run.op)] = {run.start_micros, run.end_micros};
    simulated.step_time = std::max(simulated.step_time, run.end_micros);
  }
  Course measured;
  measured.step_time = step.step_time_micros;
  measured.ops.resize(graph.num_ops());
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    measured.ops[i].start = step.op_start_micros[i];
    measured.ops[i].end = step.op_start_micros[i] + (simulated.ops[i].end - simulated.ops[i].start);
  }
  std::vector<double> errors;
  for (const MeasuredRun& run : step.runs) {
    simulated.runs.push_back({simulated.ops[Index(run.first)].start, simulated.ops[Index(run.last)].end});
    measured.runs.push_back({run.start_micros, run.end_micros});
    errors.push_back(std::abs(simulated.runs.back().start - run.start_micros));
  }

  Replay replay;
  replay.ops = graph.num_ops();
  replay.activities = step.runs.size();
  replay.attributed_percent = imported.attributed_percent.value_or(100);
  replay.step_time = simulated.step_time;
  replay.measured_step_time = measured.step_time;
  replay.gpus = step.gpus;
  const ReplayComparison comparison(imported);
  replay.gpu_busy = comparison.GpuBusy(simulated);
  replay.measured_gpu_busy = comparison.GpuBusy(measured);
  for (const std::size_t device : comparison.Streams()) {
    replay.streams.push_back({.name = imported.cluster->devices()[device].name,
                              .activities = comparison.NumRuns(device),
                              .busy = comparison.Busy(simulated, device),
                              .measured_busy = comparison.Busy(measured, device),
                              .idle = comparison.Idle(simulated, device),
                              .measured_idle = comparison.Idle(measured, device)});
  }
  if (!errors.empty()) {
    replay.starts = {.median = Quantile(errors, 0.5),
                     .p90 = Quantile(errors, 0.9),
                     .largest = *std::max_element(errors.begin(), errors.end())};
  }
  replay.explanation = ExplainStep(graph, *imported.cluster, costs, *imported.placement, options, timeline);
  return replay;
}

void WriteReplay(std::ostream& out, const Replay& replay, const datasets::Imported& imported) {
  const auto idle = [](const std::array<double, kNumIdleCauses>& causes) {
    return Json{{"host_us", causes[0]}, {"kernel_us", causes[1]}, {"synchronisation_us", causes[2]}};
  };
  Json streams = Json::array();
  for (const ReplayStream& stream : replay.streams) {
    streams.push_back({{"name", stream.name},
                       {"activities", stream.activities},
                       {"busy_us", stream.busy},
                       {"measured_busy_us", stream.measured_busy},
                       {"idle", idle(stream.idle)},
                       {"measured_idle", idle(stream.measured_idle)}});
  }
  Json path = Json::array();
  for (const ChainPart& part : replay.explanation.chain) {
    path.push_back({{"kind", Name(part.kind)},
                    {"op", imported.graph.op(part.item.op).name},
                    {"op_kind", imported.graph.op(part.item.op).kind},
                    {"device", imported.cluster->device(part.item.device).name},
                    {"start_us", MicrosFromDuration(part.begin)},
                    {"duration_us", MicrosFromDuration(part.length())}});
  }
  const Json json = {
      {"schema", "emplace.replay"},
      {"version", 1},
      {"gpus", replay.gpus},
      {"ops", replay.ops},
      {"activities", replay.activities},
      {"attributed_percent", replay.attributed_percent},
      {"step_time_us", replay.step_time},
      {"measured_step_time_us", replay.measured_step_time},
      {"gpu_busy_us", replay.gpu_busy},
      {"measured_gpu_busy_us", replay.measured_gpu_busy},
      {"start_error_us",
       {{"median", replay.starts.median}, {"p90", replay.starts.p90}, {"largest", replay.starts.largest}}},
      {"streams", std::move(streams)},
      {"critical_path", std::move(path)}};
  out << json.dump(1) << "\n";
}

}  // namespace emplace::experiments
