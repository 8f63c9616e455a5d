#include "experiments/validation/replay.h"

#include <algorithm>
#include <cmath>
#include <limits>
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

struct BusySpan {
  double start = 0;
  double end = 0;
};

double UnionOf(std::vector<BusySpan> intervals) {
  std::sort(intervals.begin(), intervals.end(), [](const BusySpan& a, const BusySpan& b) { return a.start < b.start; });
  double sum = 0;
  double until = 0;
  for (const BusySpan& interval : intervals) {
    sum += std::max(0.0, interval.end - std::max(interval.start, until));
    until = std::max(until, interval.end);
  }
  return sum;
}

// When things happen in one of the two steps, measured or simulated.
struct Course {
  std::vector<BusySpan> ops;   // indexed by OpId
  std::vector<BusySpan> runs;  // see MeasuredStep::runs
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

  double GpuBusy(const Course& course, bool with_backlog = true) const {
    std::vector<std::vector<BusySpan>> by_gpu(measured_.gpus.size());
    for (std::size_t r = 0; r < course.runs.size(); ++r) {
      const std::size_t gpu = measured_.gpu_of[Index(placement_[measured_.runs[r].last])];
      if (gpu != datasets::MeasuredStep::kInvalidGpu) by_gpu[gpu].push_back(course.runs[r]);
    }
    for (const auto& busy : measured_.backlog) {
      if (with_backlog) by_gpu[measured_.gpu_of[busy.device]].push_back({busy.start_micros, busy.end_micros});
    }
    double sum = 0;
    for (auto& intervals : by_gpu) sum += UnionOf(std::move(intervals));
    return sum;
  }

  double Busy(const Course& course, std::size_t device) const {
    std::vector<BusySpan> intervals;
    for (const std::size_t r : runs_of_[device]) intervals.push_back(course.runs[r]);
    for (const auto& busy : measured_.backlog) {
      if (busy.device == device) intervals.push_back({busy.start_micros, busy.end_micros});
    }
    return UnionOf(std::move(intervals));
  }

  double End(const Course& course, std::size_t device) const {
    double end = 0;
    for (const std::size_t r : runs_of_[device]) end = std::max(end, course.runs[r].end);
    return end;
  }

  struct IdleTimes {
    std::array<double, kNumIdleCauses> causes{};
    std::vector<double> unexplained;  // before each run: launched, and nothing else is waited for
  };

  IdleTimes Idle(const Course& course, std::size_t device) const {
    IdleTimes idle;
    const auto add = [&](IdleCause cause, double from, double to) {
      idle.causes[static_cast<std::size_t>(cause)] += std::max(0.0, to - from);
    };
    double free = 0;
    for (const auto& busy : measured_.backlog) {
      if (busy.device != device) continue;
      // Pauses of what was launched before the step: for streams that the trace does not show.
      add(IdleCause::kSync, free, busy.start_micros);
      free = std::max(free, busy.end_micros);
    }
    for (const std::size_t r : runs_of_[device]) {
      const MeasuredRun& run = measured_.runs[r];
      const double start = course.runs[r].start;
      double launched = 0;
      double joined = 0;
      for (const OpId before : graph_.control_inputs(run.first)) {
        const std::size_t at = Index(placement_[before]);
        if (at == device) continue;
        double& last = measured_.gpu_of[at] == datasets::MeasuredStep::kInvalidGpu ? launched : joined;
        last = std::max(last, course.ops[Index(before)].end);
      }
      // The host comes first: what is not launched cannot wait for a stream.
      const double host_until = std::clamp(launched, free, std::max(free, start));
      const double sync_until = std::clamp(joined, host_until, std::max(host_until, start));
      add(IdleCause::kHost, free, host_until);
      add(IdleCause::kSync, host_until, sync_until);
      add(IdleCause::kKernel, sync_until, start);
      idle.unexplained.push_back(std::max(0.0, start - sync_until));
      free = std::max(free, course.runs[r].end);
    }
    add(IdleCause::kHost, free, course.step_time);
    return idle;
  }

  std::vector<std::size_t> Streams() const {
    std::vector<std::size_t> streams;
    for (std::size_t d = 0; d < cluster_.num_devices(); ++d) {
      if (measured_.gpu_of[d] != datasets::MeasuredStep::kInvalidGpu) streams.push_back(d);
    }
    return streams;
  }
  std::size_t NumRuns(std::size_t device) const { return runs_of_[device].size(); }

  // The threads of a trace of a CPU alone.
  std::vector<ReplayThread> Threads(const Course& simulated, const Course& measured) const {
    std::vector<ReplayThread> threads(cluster_.num_devices());
    std::vector<bool> is_range(graph_.num_ops());
    for (const MeasuredRun& run : measured_.runs) is_range[Index(run.last)] = true;
    for (std::size_t d = 0; d < threads.size(); ++d) {
      threads[d].name = cluster_.devices()[d].name;
      threads[d].ranges = runs_of_[d].size();
    }
    for (std::size_t i = 0; i < graph_.num_ops(); ++i) {
      ReplayThread& thread = threads[Index(placement_[MakeId<OpId>(i)])];
      (is_range[i] ? thread.in_ranges : thread.between) += simulated.ops[i].end - simulated.ops[i].start;
      thread.end = std::max(thread.end, simulated.ops[i].end);
      thread.measured_end = std::max(thread.measured_end, measured.ops[i].end);
    }
    return threads;
  }

 private:
  const Graph& graph_;
  const Cluster& cluster_;
  const Placement& placement_;
  const datasets::MeasuredStep& measured_;
  std::vector<std::vector<std::size_t>> runs_of_;  // indexed by device, in their order
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
  replay.measured_own_busy = comparison.GpuBusy(measured, /*with_backlog=*/false);
  BusySpan own = {std::numeric_limits<double>::max(), 0};
  for (const BusySpan& run : measured.runs) own = {std::min(own.start, run.start), std::max(own.end, run.end)};
  replay.measured_own_span = std::max(0.0, own.end - own.start);
  replay.steps = std::max<std::size_t>(1, step.steps.size());
  replay.step = step.step ? std::to_string(*step.step) : "all";
  for (const std::size_t device : comparison.Streams()) {
    const auto idle = comparison.Idle(simulated, device);
    const auto measured_idle = comparison.Idle(measured, device);
    replay.streams.push_back({.name = imported.cluster->devices()[device].name,
                              .activities = comparison.NumRuns(device),
                              .busy = comparison.Busy(simulated, device),
                              .measured_busy = comparison.Busy(measured, device),
                              .end = comparison.End(simulated, device),
                              .measured_end = comparison.End(measured, device),
                              .unexplained = {},
                              .idle = idle.causes,
                              .measured_idle = measured_idle.causes});
    Unexplained& unexplained = replay.streams.back().unexplained;
    for (std::size_t r = 0; r < idle.unexplained.size(); ++r) {
      const double lacks = measured_idle.unexplained[r] - idle.unexplained[r];
      (lacks >= kLongIdleMicros ? unexplained.idle : unexplained.gaps) += lacks;
    }
    const auto all = [](const Unexplained& parts) { return parts.idle + parts.gaps; };
    if (all(unexplained) > all(replay.unexplained)) replay.unexplained = unexplained;
  }
  if (step.gpus.empty()) replay.threads = comparison.Threads(simulated, measured);
  if (step.peak_bytes) {
    replay.measured_peak = static_cast<double>(*step.peak_bytes);
    replay.peak = static_cast<double>(step.simulated_peak_bytes);
  }
  replay.unexplained.without_call = step.without_call_micros;
  if (!errors.empty()) {
    replay.starts = {.median = Quantile(errors, 0.5),
                     .p90 = Quantile(errors, 0.9),
                     .largest = *std::max_element(errors.begin(), errors.end())};
  }
  replay.explanation = ExplainStep(graph, *imported.cluster, costs, *imported.placement, options, timeline);
  return replay;
}

double UnexplainedPercent(double simulated, double measured) {
  return measured > 0 ? 100 * (measured - simulated) / measured : 0;
}

Replay MeanOf(const std::vector<Replay>& replays) {
  EMPLACE_CHECK(!replays.empty());
  Replay mean = replays.front();
  mean.step = "mean";
  const auto count = static_cast<double>(replays.size());
  const auto average = [&](const auto& value) {
    double sum = 0;
    for (const Replay& replay : replays) sum += value(replay);
    return sum / count;
  };
  const auto parts = [&](const auto& of) {
    return Unexplained{.without_call = average([&](const Replay& r) { return of(r).without_call; }),
                       .idle = average([&](const Replay& r) { return of(r).idle; }),
                       .gaps = average([&](const Replay& r) { return of(r).gaps; })};
  };
  mean.attributed_percent = average([](const Replay& r) { return r.attributed_percent; });
  mean.step_time = average([](const Replay& r) { return r.step_time; });
  mean.measured_step_time = average([](const Replay& r) { return r.measured_step_time; });
  mean.gpu_busy = average([](const Replay& r) { return r.gpu_busy; });
  mean.measured_gpu_busy = average([](const Replay& r) { return r.measured_gpu_busy; });
  mean.measured_own_busy = average([](const Replay& r) { return r.measured_own_busy; });
  mean.measured_own_span = average([](const Replay& r) { return r.measured_own_span; });
  mean.unexplained = parts([](const Replay& r) { return r.unexplained; });
  mean.peak = average([](const Replay& r) { return r.peak; });
  if (mean.measured_peak) mean.measured_peak = average([](const Replay& r) { return r.measured_peak.value_or(0); });
  for (const Replay& replay : replays) {
    mean.starts.median = std::max(mean.starts.median, replay.starts.median);
    mean.starts.p90 = std::max(mean.starts.p90, replay.starts.p90);
    mean.starts.largest = std::max(mean.starts.largest, replay.starts.largest);
    for (const ReplayStream& stream : replay.streams) {
      const bool is_known = std::any_of(mean.streams.begin(), mean.streams.end(),
                                        [&](const ReplayStream& other) { return other.name == stream.name; });
      if (!is_known) mean.streams.push_back(stream);
    }
    for (const ReplayThread& thread : replay.threads) {
      if (std::ranges::find(mean.threads, thread.name, &ReplayThread::name) == mean.threads.end()) {
        mean.threads.push_back(thread);
      }
    }
  }
  for (ReplayStream& stream : mean.streams) {
    const auto in = [name = stream.name](const Replay& replay) {
      for (const ReplayStream& other : replay.streams) {
        if (other.name == name) return other;
      }
      return ReplayStream();
    };
    stream.activities = 0;
    for (const Replay& replay : replays) stream.activities += in(replay).activities;
    stream.activities /= replays.size();
    stream.busy = average([&](const Replay& r) { return in(r).busy; });
    stream.measured_busy = average([&](const Replay& r) { return in(r).measured_busy; });
    stream.end = average([&](const Replay& r) { return in(r).end; });
    stream.measured_end = average([&](const Replay& r) { return in(r).measured_end; });
    stream.unexplained = parts([&](const Replay& r) { return in(r).unexplained; });
    for (std::size_t cause = 0; cause < kNumIdleCauses; ++cause) {
      stream.idle[cause] = average([&](const Replay& r) { return in(r).idle[cause]; });
      stream.measured_idle[cause] = average([&](const Replay& r) { return in(r).measured_idle[cause]; });
    }
  }
  for (ReplayThread& thread : mean.threads) {
    const auto in = [name = thread.name](const Replay& replay) {
      const auto found = std::ranges::find(replay.threads, name, &ReplayThread::name);
      return found == replay.threads.end() ? ReplayThread() : *found;
    };
    thread.ranges = 0;
    for (const Replay& replay : replays) thread.ranges += in(replay).ranges;
    thread.ranges /= replays.size();
    thread.in_ranges = average([&](const Replay& r) { return in(r).in_ranges; });
    thread.between = average([&](const Replay& r) { return in(r).between; });
    thread.end = average([&](const Replay& r) { return in(r).end; });
    thread.measured_end = average([&](const Replay& r) { return in(r).measured_end; });
  }
  return mean;
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
                       {"end_us", stream.end},
                       {"measured_end_us", stream.measured_end},
                       {"unexplained_percent", UnexplainedPercent(stream.end, stream.measured_end)},
                       {"unexplained_idle_us", stream.unexplained.idle},
                       {"unexplained_gaps_us", stream.unexplained.gaps},
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
  Json json = {{"schema", "emplace.replay"},
               {"version", 1},
               {"gpus", replay.gpus},
               {"ops", replay.ops},
               {"activities", replay.activities},
               {"attributed_percent", replay.attributed_percent},
               {"step_time_us", replay.step_time},
               {"measured_step_time_us", replay.measured_step_time},
               {"unexplained_percent", replay.UnexplainedPercent()},
               {"unexplained",
                {{"without_call_us", replay.unexplained.without_call},
                 {"idle_us", replay.unexplained.idle},
                 {"gaps_us", replay.unexplained.gaps}}},
               {"steps", replay.steps},
               {"step", replay.step},
               {"gpu_busy_us", replay.gpu_busy},
               {"measured_gpu_busy_us", replay.measured_gpu_busy},
               {"measured_own_busy_us", replay.measured_own_busy},
               {"measured_own_span_us", replay.measured_own_span},
               {"start_error_us",
                {{"median", replay.starts.median}, {"p90", replay.starts.p90}, {"largest", replay.starts.largest}}},
               {"streams", std::move(streams)},
               {"critical_path", std::move(path)}};
  if (!replay.threads.empty()) {
    Json threads = Json::array();
    for (const ReplayThread& thread : replay.threads) {
      threads.push_back({{"name", thread.name},
                         {"ranges", thread.ranges},
                         {"in_ranges_us", thread.in_ranges},
                         {"between_us", thread.between},
                         {"waiting_us", thread.Waiting()},
                         {"measured_waiting_us", thread.MeasuredWaiting()},
                         {"end_us", thread.end},
                         {"measured_end_us", thread.measured_end}});
    }
    json["threads"] = std::move(threads);
  }
  if (replay.measured_peak) {
    json["peak_bytes"] = replay.peak;
    json["measured_peak_bytes"] = *replay.measured_peak;
  }
  out << json.dump(1) << "\n";
}

}  // namespace emplace::experiments
