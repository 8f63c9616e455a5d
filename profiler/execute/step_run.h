#ifndef EMPLACE_PROFILER_EXECUTE_STEP_RUN_H_
#define EMPLACE_PROFILER_EXECUTE_STEP_RUN_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "profiler/device_thread.h"
#include "profiler/execute/memory_ledger.h"
#include "profiler/execute/placed_program.h"
#include "profiler/execute/work_queue.h"
#include "profiler/hardware.h"
#include "profiler/measure/disturbance.h"
#include "sim/graph.h"
#include "sim/timeline.h"

namespace emplace::profiler {

// A device's threads and their queues. Made once for all placements.
struct DeviceWorker {
  DeviceWorker(std::optional<Bytes> memory, std::optional<double> known_probe_micros)
      : ledger(memory), probe(known_probe_micros) {}
  WorkQueue<OpId> ops;
  WorkQueue<std::uint32_t> copies;
  MemoryLedger ledger;
  Bytes persistent;
  StepProbe probe;
  DeviceThread thread;
  std::optional<DeviceThread> copier;  // none: a core sends by itself
};

// An op on the device where it was last placed.
struct PreparedOp {
  std::optional<DeviceId> device;
  std::unique_ptr<OpKernel> kernel;
  std::vector<TensorHandle> data;  // contents of inputs and variables
};

// Steps of one placed program, one after the other: each device's thread takes runnable ops first in, first out, a
// copier sends what leaves a device that has one, and a tensor is freed after its last use. All references outlive it.
class StepRun {
 public:
  // With `watches`, devices are probed within a step (StepProbe).
  StepRun(const Graph& graph, const PlacedProgram& program, std::vector<PreparedOp>& ops,
          const std::vector<HardwareDevice*>& devices, const std::vector<std::unique_ptr<DeviceWorker>>& workers,
          bool watches);

  // Returns the step time in µs. Throws what an op threw.
  double Run();
  // The course of the last step.
  Timeline CurrentTimeline() const;
  // Runs one more step, in which devices that run behind the host record when they began and ended each op.
  Timeline RunTimed();

 private:
  struct Span {
    double start = 0;  // µs
    double end = 0;
  };
  struct Origin {
    std::shared_ptr<DeviceEvent> event;
    double micros = 0;  // time at which the host recorded it, on an idle device
  };

  double Now() const {
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - began_).count();
  }
  DeviceWorker& WorkerOf(DeviceId device) { return *workers_[Index(device)]; }
  // Whether the device's copier has something to do.
  bool Copies(std::size_t d) const { return program_.num_copies[d] > 0 && workers_[d]->copier.has_value(); }
  bool Times(std::size_t d) const { return is_timed_ && !devices_[d]->is_cpu(); }

  void Reset();
  void Work(std::size_t d);  // the device's thread
  void Copy(std::size_t d);  // its copier
  void Fail();               // keeps the first failure and lets every thread end
  void Execute(OpId id);
  void Finish(OpId id, std::vector<TensorHandle> outputs);  // hands on what the op made
  void Send(std::uint32_t copy);
  void Signal(OpId op);           // one of the op's predecessors is done
  void Used(std::uint32_t slot);  // one of its uses is over

  const Graph& graph_;
  const PlacedProgram& program_;
  std::vector<PreparedOp>& ops_;  // indexed by OpId
  const std::vector<HardwareDevice*>& devices_;
  const std::vector<std::unique_ptr<DeviceWorker>>& workers_;
  const bool watches_;

  std::chrono::steady_clock::time_point began_;
  std::vector<std::atomic<std::uint32_t>> waits_;  // indexed by OpId
  std::vector<std::atomic<std::uint32_t>> uses_;   // indexed by slot
  std::vector<TensorHandle> handles_;              // indexed by slot
  std::vector<std::shared_ptr<DeviceEvent>> events_;
  std::vector<Span> op_spans_;
  std::vector<Span> copy_spans_;
  std::vector<double> ends_;  // indexed by device
  bool is_timed_ = false;
  std::vector<Origin> origins_;                                                                  // indexed by device
  std::vector<std::pair<std::shared_ptr<DeviceEvent>, std::shared_ptr<DeviceEvent>>> op_times_;  // indexed by OpId
  std::mutex error_mutex_;
  std::exception_ptr error_;
};

}  // namespace emplace::profiler

#endif  // EMPLACE_PROFILER_EXECUTE_STEP_RUN_H_
