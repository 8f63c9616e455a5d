#include "profiler/execute/hardware_runner.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <exception>
#include <mutex>
#include <numeric>
#include <optional>
#include <utility>

#include "profiler/execute/device_thread.h"
#include "profiler/execute/memory_ledger.h"
#include "profiler/execute/placed_program.h"
#include "profiler/execute/work_queue.h"
#include "profiler/measure/aggregate.h"
#include "profiler/measure/alone_sampler.h"
#include "profiler/measure/step_probe.h"
#include "profiler/recipe.h"
#include "sim/base/check.h"

namespace emplace {
namespace {

// A thread that finds nothing to do looks again for so long before it sleeps: waking it costs tens of µs.
constexpr std::chrono::microseconds kPatience{50};

// An op on the device where it was last placed.
struct Prepared {
  std::optional<DeviceId> device;
  std::unique_ptr<OpKernel> kernel;
  std::vector<TensorHandle> data;  // of inputs and variables
};

}  // namespace

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
      workers_.push_back(std::make_unique<Worker>(cluster.devices()[d].memory));
      if (devices_[d] == nullptr) continue;
      workers_[d]->thread.Run([this, d] { devices_[d]->Attach(); });
      if (devices_[d]->is_cpu()) continue;
      workers_[d]->copier.emplace();
      workers_[d]->copier->Run([this, d] { devices_[d]->AttachCopier(); });
    }
  }

  ~Machine() {
    // What a device made is freed before it goes.
    prepared_.clear();
    handles_.clear();
    alone_.reset();
  }

  bool interleaves() const { return options_.interleave; }

  HardwareStep Measure(const Placement& placement, bool interleave) {
    const std::lock_guard lock(mutex_);
    program_ = MakePlacedProgram(graph_, placement, devices_.size());
    is_timed_ = false;  // a timed step may have failed
    HardwareStep measured;
    try {
      Prepare();
      if (interleave) PrepareAlone(placement);
      for (std::size_t i = 0; i < options_.warmups; ++i) RunStep();
      std::vector<RunOfStep> runs = RunSteps();
      std::vector<std::pair<double, Timeline>> steps;
      std::vector<std::vector<double>> alone;
      for (RunOfStep& run : runs) {
        measured.step_micros.push_back(run.micros);
        measured.disturbed += run.slowdown > StepProbe::kCalmStep ? 1 : 0;
        steps.emplace_back(run.micros, std::move(run.timeline));
        alone.push_back(std::move(run.alone));
      }
      if (alone_) measured.alone_micros = AloneSampler::MedianTimes(alone);
      Summarise(std::move(steps), &measured);
      if (RunsBehind()) UseTimeline(TimedStep(), &measured);
    } catch (const DeviceOutOfMemory& error) {
      measured.failure = error.what();
      measured.result.fits_memory = false;
    }
    for (const auto& worker : workers_) measured.result.peak_memory.push_back(worker->ledger.peak());
    handles_.clear();
    alone_.reset();
    return measured;
  }

 private:
  // A device's threads, and what waits for them.
  struct Worker {
    explicit Worker(std::optional<Bytes> memory) : ledger(memory) {}
    WorkQueue<OpId> ops;
    WorkQueue<std::uint32_t> copies;
    MemoryLedger ledger;
    Bytes persistent;
    StepProbe probe;
    DeviceThread thread;
    std::optional<DeviceThread> copier;  // none: a core has nothing beside it that copies, it sends by itself
  };
  struct Span {
    double start = 0;
    double end = 0;
  };

  double Now() const {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - began_).count();
  }
  Worker& WorkerOf(DeviceId device) { return *workers_[Index(device)]; }

  // Every op made ready on the device where it is now; what stays where it was is kept.
  void Prepare() {
    for (auto& worker : workers_) worker->persistent = {};
    for (std::size_t n = 0; n < recipes_.size(); ++n) {
      WorkerOf(program_.steps[n].device).persistent += graph_.op(MakeId<OpId>(n)).persistent;
    }
    // What moves leaves first, or a device would hold it beside what comes.
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
    Prepared& op = prepared_[n];
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

  void PrepareAlone(const Placement& placement) {
    alone_.emplace(graph_, recipes_, placement, devices_, options_.seed);
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      if (program_.num_ops[d] > 0) workers_[d]->thread.Run([this, d] { alone_->Prepare(d); });
    }
  }

  bool Watches() const { return options_.patience_seconds > 0; }

  // A step, and how much others slowed the devices in it.
  struct RunOfStep {
    double micros = 0;
    double slowdown = 1;
    Timeline timeline;
    std::vector<double> alone;  // by OpId, sampled right after it; empty unless asked for
  };

  // As many as count, in order: run until so many are calm, or until there is no patience left with those that are not;
  // then the least disturbed.
  std::vector<RunOfStep> RunSteps() {
    double patience_micros = 1e6 * options_.patience_seconds;
    std::vector<RunOfStep> runs;
    std::size_t calm = 0;
    std::size_t number = 0;
    Probe();
    while (calm < options_.steps && (patience_micros > 0 || number < options_.steps)) {
      const double micros = RunStep();
      ++number;
      Probe();
      const double slowdown = SlowdownOfStep();
      if (slowdown <= StepProbe::kCalmStep) {
        ++calm;
      } else {
        patience_micros -= micros;
      }
      runs.push_back({.micros = micros, .slowdown = slowdown, .timeline = TimelineOfStep(), .alone = {}});
      if (alone_) {
        SampleAlone();
        Probe();
        runs.back().alone = alone_->Times();
      }
      if (runs.size() > options_.steps) {
        runs.erase(std::max_element(runs.begin(), runs.end(),
                                    [](const RunOfStep& a, const RunOfStep& b) { return a.slowdown < b.slowdown; }));
      }
    }
    return runs;
  }

  // All devices that have ops. Without patience it is not needed.
  void Probe() {
    if (!Watches()) return;
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      if (program_.num_ops[d] > 0) workers_[d]->thread.Start([this, d] { workers_[d]->probe.Probe(*devices_[d]); });
    }
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      if (program_.num_ops[d] > 0) workers_[d]->thread.Wait();
    }
  }

  // Of the device that was slowed most.
  double SlowdownOfStep() const {
    double most = 1;
    for (const auto& worker : workers_) most = std::max(most, worker->probe.Slowdown());
    return most;
  }

  // Between steps: the ops by themselves, one device after the other.
  void SampleAlone() {
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      if (program_.num_ops[d] > 0) workers_[d]->thread.Run([this, d] { alone_->Sample(d); });
    }
  }

  // Returns the step time in µs.
  double RunStep() {
    Reset();
    began_ = std::chrono::steady_clock::now();
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      for (const OpId op : program_.roots[d]) workers_[d]->ops.Push(op);
    }
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      if (Copies(d)) workers_[d]->copier->Start([this, d] { Copy(d); });
      if (program_.num_ops[d] > 0) workers_[d]->thread.Start([this, d] { Work(d); });
    }
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      if (program_.num_ops[d] > 0) workers_[d]->thread.Wait();
      if (Copies(d)) workers_[d]->copier->Wait();
    }
    if (error_) {
      handles_.clear();
      std::rethrow_exception(std::exchange(error_, nullptr));
    }
    double last = 0;
    for (const double end : ends_) last = std::max(last, end);
    return last;
  }

  // Whether a device that has ops runs behind the host.
  bool RunsBehind() const {
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      if (program_.num_ops[d] > 0 && !devices_[d]->is_cpu()) return true;
    }
    return false;
  }

  // A step in which devices that run behind the host tell when they began and ended each op.
  Timeline TimedStep() {
    op_times_.assign(program_.steps.size(), {});
    origins_.assign(devices_.size(), {});
    is_timed_ = true;
    RunStep();
    is_timed_ = false;
    for (std::size_t n = 0; n < op_times_.size(); ++n) {
      const std::size_t d = Index(program_.steps[n].device);
      const auto& [first, last] = op_times_[n];
      if (first == nullptr || last == nullptr || origins_[d].event == nullptr) continue;
      const auto since_began = [&](const DeviceEvent& event) {
        return origins_[d].micros + devices_[d]->MicrosBetween(*origins_[d].event, event);
      };
      op_spans_[n] = {since_began(*first), since_began(*last)};
    }
    // A copy is on its way once its tensor is there, not while its copier waits for that.
    for (std::size_t c = 0; c < copy_spans_.size(); ++c) {
      const OpId producer = graph_.tensor(program_.slots[program_.copies[c].from].tensor).producer;
      Span& span = copy_spans_[c];
      span.start = std::clamp(op_spans_[Index(producer)].end, span.start, std::max(span.start, span.end));
    }
    op_times_.clear();
    origins_.clear();
    return TimelineOfStep();
  }

  // Whether the device's copier has something to do.
  bool Copies(std::size_t d) const { return program_.num_copies[d] > 0 && workers_[d]->copier.has_value(); }

  void Reset() {
    const std::size_t num_ops = program_.steps.size();
    if (waits_.size() != num_ops) waits_ = std::vector<std::atomic<std::uint32_t>>(num_ops);
    if (uses_.size() != program_.slots.size()) uses_ = std::vector<std::atomic<std::uint32_t>>(program_.slots.size());
    for (std::size_t n = 0; n < num_ops; ++n) waits_[n] = program_.steps[n].waits;
    for (std::size_t s = 0; s < uses_.size(); ++s) uses_[s] = program_.slots[s].uses;
    handles_.assign(program_.slots.size(), nullptr);
    events_.assign(num_ops, nullptr);
    op_spans_.assign(num_ops, {});
    copy_spans_.assign(program_.copies.size(), {});
    ends_.assign(devices_.size(), 0);
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      Worker& worker = *workers_[d];
      worker.ops.Reset();
      worker.copies.Reset();
      worker.ledger.Reset(worker.persistent);
      if (program_.num_ops[d] > 0) worker.probe.BeginStep();
    }
  }

  // Remembers the first failure and lets every thread end.
  void Fail() {
    {
      const std::lock_guard lock(error_mutex_);
      if (!error_) error_ = std::current_exception();
    }
    for (auto& worker : workers_) {
      worker->ops.Close();
      worker->copies.Close();
    }
  }

  void Work(std::size_t d) {
    try {
      if (Times(d)) {
        devices_[d]->Synchronize();
        origins_[d] = {devices_[d]->RecordTime(), Now()};
      }
      for (std::size_t done = 0; done < program_.num_ops[d]; ++done) {
        const std::optional<OpId> op = workers_[d]->ops.Pop(kPatience);
        if (!op) return;
        Execute(*op);
        if (Watches()) workers_[d]->probe.ProbeWithin(*devices_[d], Now());
      }
      if (!devices_[d]->is_cpu()) {
        devices_[d]->Synchronize();
        ends_[d] = Now();
      }
    } catch (...) {
      Fail();
    }
  }

  bool Times(std::size_t d) const { return is_timed_ && !devices_[d]->is_cpu(); }

  void Execute(OpId id) {
    const PlacedProgram::Step& step = program_.steps[Index(id)];
    Prepared& op = prepared_[Index(id)];
    Worker& worker = WorkerOf(step.device);
    Span& span = op_spans_[Index(id)];
    std::vector<TensorHandle> inputs;
    for (const std::uint32_t slot : step.inputs) inputs.push_back(handles_[slot]);
    std::vector<TensorHandle> outputs = op.data;
    span.start = Now();
    for (const std::uint32_t slot : step.outputs) worker.ledger.Allocate(program_.slots[slot].size, span.start);
    const Bytes temp = graph_.op(id).temp;
    if (temp.count > 0) worker.ledger.Allocate(temp, span.start);
    HardwareDevice& device = *devices_[Index(step.device)];
    const bool is_timed = Times(Index(step.device));
    if (is_timed) op_times_[Index(id)].first = device.RecordTime();
    if (op.kernel) op.kernel->Run(inputs, &outputs);
    if (is_timed) op_times_[Index(id)].second = device.RecordTime();
    span.end = Now();
    inputs.clear();
    ends_[Index(step.device)] = span.end;
    if (temp.count > 0) worker.ledger.Free(temp, span.end);
    EMPLACE_CHECK_EQ(outputs.size(), step.outputs.size());
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      // A tensor without readers is freed at once.
      if (program_.slots[step.outputs[o]].uses == 0) {
        worker.ledger.Free(program_.slots[step.outputs[o]].size, span.end);
      } else {
        handles_[step.outputs[o]] = std::move(outputs[o]);
      }
    }
    if (!step.copies.empty()) events_[Index(id)] = device.Record();
    if (worker.copier) {
      for (const std::uint32_t copy : step.copies) worker.copies.Push(copy);
    }
    for (const OpId next : step.next_here) Tell(next);
    // What another device waits for, without reading it, is not done when it is given to this one.
    if (!step.next_elsewhere.empty()) device.Synchronize();
    for (const OpId next : step.next_elsewhere) Tell(next);
    if (!worker.copier) {
      for (const std::uint32_t copy : step.copies) Send(copy);
    }
    for (const std::uint32_t slot : step.frees) Used(slot);
  }

  void Tell(OpId op) {
    if (waits_[Index(op)].fetch_sub(1, std::memory_order_acq_rel) == 1) {
      WorkerOf(program_.steps[Index(op)].device).ops.Push(op);
    }
  }

  void Used(std::uint32_t slot) {
    if (uses_[slot].fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    handles_[slot] = nullptr;
    WorkerOf(program_.slots[slot].device).ledger.Free(program_.slots[slot].size, Now());
  }

  void Copy(std::size_t d) {
    try {
      for (std::size_t done = 0; done < program_.num_copies[d]; ++done) {
        const std::optional<std::uint32_t> copy = workers_[d]->copies.Pop({});
        if (!copy) return;
        Send(*copy);
      }
    } catch (...) {
      Fail();
    }
  }

  void Send(std::uint32_t id) {
    const PlacedProgram::Copy& copy = program_.copies[id];
    const PlacedProgram::Slot& from = program_.slots[copy.from];
    const PlacedProgram::Slot& to = program_.slots[copy.to];
    Span& span = copy_spans_[id];
    span.start = Now();
    WorkerOf(to.device).ledger.Allocate(to.size, span.start);
    const OpId producer = graph_.tensor(from.tensor).producer;
    handles_[copy.to] = devices_[Index(to.device)]->Receive(handles_[copy.from], *devices_[Index(from.device)],
                                                            events_[Index(producer)].get());
    span.end = Now();
    for (const OpId reader : copy.readers) Tell(reader);
    Used(copy.from);
  }

  Timeline TimelineOfStep() const {
    Timeline timeline;
    for (std::size_t n = 0; n < op_spans_.size(); ++n) {
      timeline.ops.push_back({.op = MakeId<OpId>(n),
                              .device = program_.steps[n].device,
                              .start_micros = op_spans_[n].start,
                              .end_micros = op_spans_[n].end});
    }
    for (std::size_t c = 0; c < copy_spans_.size(); ++c) {
      const PlacedProgram::Slot& from = program_.slots[program_.copies[c].from];
      timeline.transfers.push_back({.tensor = from.tensor,
                                    .from = from.device,
                                    .to = program_.slots[program_.copies[c].to].device,
                                    .start_micros = copy_spans_[c].start,
                                    .arrival_micros = copy_spans_[c].end});
    }
    const auto sooner = [](const auto& a, const auto& b) { return a.start_micros < b.start_micros; };
    std::stable_sort(timeline.ops.begin(), timeline.ops.end(), sooner);
    std::stable_sort(timeline.transfers.begin(), timeline.transfers.end(), sooner);
    for (std::size_t d = 0; d < workers_.size(); ++d) {
      std::vector<std::pair<double, Bytes>> samples = workers_[d]->ledger.samples();
      std::stable_sort(samples.begin(), samples.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
      for (const auto& [micros, bytes] : samples) timeline.memory.push_back({MakeId<DeviceId>(d), micros, bytes});
    }
    return timeline;
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

  // Of the placement.
  PlacedProgram program_;
  std::vector<Prepared> prepared_;     // by OpId
  std::optional<AloneSampler> alone_;  // while it is measured, where asked for

  // Of the step.
  std::chrono::steady_clock::time_point began_;
  std::vector<std::atomic<std::uint32_t>> waits_;  // by OpId
  std::vector<std::atomic<std::uint32_t>> uses_;   // by slot
  std::vector<TensorHandle> handles_;              // by slot
  std::vector<std::shared_ptr<DeviceEvent>> events_;
  std::vector<Span> op_spans_;
  std::vector<Span> copy_spans_;
  std::vector<double> ends_;  // by device
  bool is_timed_ = false;
  struct Origin {
    std::shared_ptr<DeviceEvent> event;
    double micros = 0;  // when the host recorded it, on an idle device
  };
  std::vector<Origin> origins_;                                                                  // by device
  std::vector<std::pair<std::shared_ptr<DeviceEvent>, std::shared_ptr<DeviceEvent>>> op_times_;  // by OpId
  std::mutex error_mutex_;
  std::exception_ptr error_;

  std::vector<std::unique_ptr<Worker>> workers_;  // last: their threads end first
};

HardwareRunner::HardwareRunner(const Graph& graph, const Cluster& cluster, std::vector<HardwareDevice*> devices,
                               const HardwareOptions& options)
    : machine_(std::make_unique<Machine>(graph, cluster, std::move(devices), options)) {}

HardwareRunner::~HardwareRunner() = default;

HardwareStep HardwareRunner::Measure(const Placement& placement) const {
  return machine_->Measure(placement, machine_->interleaves());
}

StepResult HardwareRunner::Run(const Placement& placement) const { return machine_->Measure(placement, false).result; }

}  // namespace emplace
