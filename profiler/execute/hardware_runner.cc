#include "profiler/execute/hardware_runner.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <numeric>
#include <optional>
#include <utility>

#include "profiler/execute/placed_program.h"
#include "profiler/execute/step_run.h"
#include "profiler/measure/disturbance.h"
#include "profiler/measure/op_sampler.h"
#include "profiler/recipe.h"
#include "sim/base/check.h"
#include "sim/base/statistics.h"

namespace emplace::profiler {

class HardwareRunner::Machine {
 public:
  Machine(const Graph& graph, const Cluster& cluster, std::vector<HardwareDevice*> devices,
          const HardwareOptions& options)
      : graph_(graph), options_(options), devices_(std::move(devices)), recipes_(RecipesOf(graph)) {
    EMPLACE_CHECK_EQ(devices_.size(), cluster.num_devices());
    EMPLACE_CHECK(options.steps > 0);
    for (const HardwareDevice* const device : devices_) {
      if (!options.interleave || device == nullptr || device->is_cpu()) continue;
      throw InputError(device->name(), "ops cannot be timed between steps there (interleave is for CPU cores)");
    }
    prepared_.resize(graph.num_ops());
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      workers_.push_back(std::make_unique<DeviceWorker>(cluster.devices()[d].memory, options.known_probe_micros));
      if (devices_[d] == nullptr) continue;
      workers_[d]->thread.Run([this, d] { devices_[d]->Attach(); });
      if (devices_[d]->is_cpu()) continue;
      workers_[d]->copier.emplace();
      workers_[d]->copier->Run([this, d] { devices_[d]->AttachCopier(); });
    }
  }

  ~Machine() {
    // Objects of a device are freed before the device.
    step_.reset();
    prepared_.clear();
    sampler_.reset();
  }

  bool interleaves() const { return options_.interleave; }

  HardwareStep Measure(const Placement& placement, bool interleave) {
    const std::lock_guard lock(mutex_);
    program_ = MakePlacedProgram(graph_, placement, devices_.size());
    step_.emplace(graph_, program_, prepared_, devices_, workers_, Watches());
    HardwareStep measured;
    try {
      Prepare();
      if (interleave) PrepareSamples(placement);
      for (std::size_t i = 0; i < options_.warmups; ++i) step_->Run();
      for (const std::size_t d : Used()) measured.clocks.Begin(*devices_[d]);
      std::vector<RunOfStep> runs = RunSteps();
      for (const std::size_t d : Used()) measured.clocks.End(*devices_[d]);
      std::vector<std::pair<double, Timeline>> steps;
      std::vector<OpSampler::Times> op_times;
      for (RunOfStep& run : runs) {
        measured.step_micros.push_back(run.micros);
        measured.disturbed += run.slowdown > StepProbe::kCalmStep ? 1 : 0;
        steps.emplace_back(run.micros, std::move(run.timeline));
        op_times.push_back(std::move(run.op_times));
      }
      if (sampler_) measured.op_times = OpSampler::MedianTimes(op_times);
      Summarise(std::move(steps), &measured);
      if (RunsBehind()) UseTimeline(step_->RunTimed(), &measured);
    } catch (const DeviceOutOfMemory& error) {
      measured.failure = error.what();
      measured.result.fits_memory = false;
    }
    for (const auto& worker : workers_) measured.result.peak_memory.push_back(worker->ledger.peak());
    step_.reset();
    sampler_.reset();
    return measured;
  }

 private:
  DeviceWorker& WorkerOf(DeviceId device) { return *workers_[Index(device)]; }

  // Every op made ready on the device where it is now; what stays where it was is kept.
  void Prepare() {
    for (auto& worker : workers_) worker->persistent = {};
    for (std::size_t n = 0; n < recipes_.size(); ++n) {
      WorkerOf(program_.steps[n].device).persistent += graph_.op(MakeId<OpId>(n)).persistent;
    }
    // Moved tensors are freed first, or a device would hold them together with the incoming ones.
    for (std::size_t n = 0; n < recipes_.size(); ++n) {
      if (prepared_[n].device != program_.steps[n].device) prepared_[n] = {};
    }
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      if (program_.num_ops[d] == 0) continue;
      EMPLACE_CHECK(devices_[d] != nullptr);
      workers_[d]->thread.Run([this, d] {
        for (std::size_t n = 0; n < recipes_.size(); ++n) {
          if (Index(program_.steps[n].device) == d) PrepareOp(n);
        }
        devices_[d]->Synchronize();
      });
    }
  }

  void PrepareOp(std::size_t n) {
    PreparedOp& op = prepared_[n];
    const DeviceId device = program_.steps[n].device;
    if (op.device == device) return;
    HardwareDevice& hardware = *devices_[Index(device)];
    if (IsData(recipes_[n])) {
      for (std::size_t o = 0; o < recipes_[n].outputs.size(); ++o) {
        op.data.push_back(hardware.Make(recipes_[n].outputs[o], options_.seed + n * 16 + o));
      }
    } else {
      op.kernel = hardware.Prepare(recipes_[n]);
    }
    op.device = device;
  }

  void PrepareSamples(const Placement& placement) {
    sampler_.emplace(graph_, recipes_, placement, devices_, options_.seed);
    for (const std::size_t d : Used()) workers_[d]->thread.Run([this, d] { sampler_->Prepare(d); });
  }

  // Devices that have ops.
  std::vector<std::size_t> Used() const {
    std::vector<std::size_t> used;
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      if (program_.num_ops[d] > 0) used.push_back(d);
    }
    return used;
  }

  bool Watches() const { return options_.patience_seconds > 0; }

  // A step, and how much others slowed the devices in it.
  struct RunOfStep {
    double micros = 0;
    double slowdown = 1;
    Timeline timeline;
    OpSampler::Times op_times;  // sampled right after it, where asked for
  };

  // The runs that count, in order. The step is repeated until enough runs are undisturbed or patience_seconds have
  // passed; in the latter case, the least disturbed runs count.
  std::vector<RunOfStep> RunSteps() {
    double patience_micros = 1e6 * options_.patience_seconds;
    std::vector<RunOfStep> runs;
    std::size_t calm = 0;
    std::size_t number = 0;
    Probe();
    while (calm < options_.steps && (patience_micros > 0 || number < options_.steps)) {
      const double micros = step_->Run();
      ++number;
      Probe();
      const double slowdown = SlowdownOfStep();
      if (slowdown <= StepProbe::kCalmStep) {
        ++calm;
      } else {
        patience_micros -= micros;
      }
      runs.push_back({.micros = micros, .slowdown = slowdown, .timeline = step_->CurrentTimeline(), .op_times = {}});
      if (sampler_) {
        SampleOps();
        Probe();
        runs.back().op_times = sampler_->Last();
      }
      if (runs.size() > options_.steps) {
        runs.erase(std::max_element(runs.begin(), runs.end(),
                                    [](const RunOfStep& a, const RunOfStep& b) { return a.slowdown < b.slowdown; }));
      }
    }
    return runs;
  }

  // Probes all devices that have ops, unless patience_seconds is 0.
  void Probe() {
    if (!Watches()) return;
    const std::vector<std::size_t> used = Used();
    for (const std::size_t d : used) {
      workers_[d]->thread.Start([this, d] { workers_[d]->probe.Probe(*devices_[d]); });
    }
    for (const std::size_t d : used) workers_[d]->thread.Wait();
  }

  // The slowdown of the device that was slowed most.
  double SlowdownOfStep() const {
    double most = 1;
    for (const std::size_t d : Used()) most = std::max(most, workers_[d]->probe.Slowdown());
    return most;
  }

  // Between steps, runs each device's ops by themselves, first while the other devices are idle, then while another one
  // is busy, as contention is measured for a profile.
  void SampleOps() {
    const std::vector<std::size_t> used = Used();
    for (const std::size_t d : used) {
      workers_[d]->thread.Run([this, d] { sampler_->Sample(d, /*alone=*/true); });
    }
    if (used.size() < 2) return;
    for (std::size_t i = 0; i < used.size(); ++i) {
      const std::size_t neighbour = used[(i + 1) % used.size()];
      WhileBusy(
          workers_[neighbour]->thread,
          [&](const std::atomic<bool>& stop, std::atomic<bool>* is_busy) {
            sampler_->KeepBusy(neighbour, stop, is_busy);
          },
          [&] { workers_[used[i]]->thread.Run([&] { sampler_->Sample(used[i], /*alone=*/false); }); });
    }
  }

  // Whether a device that has ops runs behind the host.
  bool RunsBehind() const {
    const std::vector<std::size_t> used = Used();
    return std::any_of(used.begin(), used.end(), [this](std::size_t d) { return !devices_[d]->is_cpu(); });
  }

  void Summarise(std::vector<std::pair<double, Timeline>> steps, HardwareStep* measured) const {
    const std::vector<double>& times = measured->step_micros;
    const double micros = options_.statistic == HardwareOptions::Statistic::kMedian
                              ? Median(times)
                              : std::accumulate(times.begin(), times.end(), 0.0) / static_cast<double>(times.size());
    measured->result.step_time_micros = micros;
    const auto closest = std::min_element(steps.begin(), steps.end(), [&](const auto& a, const auto& b) {
      return std::abs(a.first - micros) < std::abs(b.first - micros);
    });
    UseTimeline(std::move(closest->second), measured);
  }

  void UseTimeline(Timeline timeline, HardwareStep* measured) const {
    measured->timeline = std::move(timeline);
    measured->result.start_micros.assign(graph_.num_ops(), 0);
    for (const Timeline::OpRun& run : measured->timeline.ops) {
      measured->result.start_micros[Index(run.op)] = run.start_micros;
    }
  }

  const Graph& graph_;
  const HardwareOptions options_;
  const std::vector<HardwareDevice*> devices_;
  const std::vector<OpRecipe> recipes_;
  std::mutex mutex_;  // one placement at a time

  // State prepared for the placement.
  PlacedProgram program_;
  std::vector<PreparedOp> prepared_;  // indexed by OpId
  std::optional<StepRun> step_;       // while it is measured
  std::optional<OpSampler> sampler_;  // the same, where asked for

  std::vector<std::unique_ptr<DeviceWorker>> workers_;  // last: their threads end first
};

HardwareRunner::HardwareRunner(const Graph& graph, const Cluster& cluster, std::vector<HardwareDevice*> devices,
                               const HardwareOptions& options)
    : machine_(std::make_unique<Machine>(graph, cluster, std::move(devices), options)) {}

HardwareRunner::~HardwareRunner() = default;

HardwareStep HardwareRunner::Measure(const Placement& placement) const {
  return machine_->Measure(placement, machine_->interleaves());
}

HardwareStep HardwareRunner::MeasureSteps(const Placement& placement) const {
  return machine_->Measure(placement, false);
}

StepResult HardwareRunner::Run(const Placement& placement) const { return MeasureSteps(placement).result; }

}  // namespace emplace::profiler
