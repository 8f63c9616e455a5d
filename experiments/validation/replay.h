#ifndef EMPLACE_EXPERIMENTS_VALIDATION_REPLAY_H_
#define EMPLACE_EXPERIMENTS_VALIDATION_REPLAY_H_

#include <array>
#include <cstddef>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "datasets/importers/registry.h"
#include "sim/step_explanation.h"

namespace emplace::experiments {

// Why a stream is idle before an activity, or at the end of the step.
enum class IdleCause : std::size_t {
  kHost,    // the host has not launched it yet
  kKernel,  // it is launched, and nothing else is waited for: launch delay, gap between kernels
  kSync,    // another stream, or another rank of a collective, has not got that far
};
inline constexpr std::size_t kNumIdleCauses = 3;

// Per cent of a measured time that its simulation lacks; below 0: what it has too much.
double UnexplainedPercent(double simulated, double measured);

// The components of the unexplained time of a stream, in µs.
struct Unexplained {
  double without_call = 0;  // activities that no call started
  double idle = 0;          // idle times of at least kLongIdleMicros that nothing in the trace accounts for
  double gaps = 0;          // shorter ones that were not reproduced
};
inline constexpr double kLongIdleMicros = 100;

// Times in µs.
struct ReplayStream {
  std::string name;
  std::size_t activities = 0;
  double busy = 0;
  double measured_busy = 0;
  double end = 0;  // end of its last activity
  double measured_end = 0;
  Unexplained unexplained;
  std::array<double, kNumIdleCauses> idle{};  // indexed by IdleCause
  std::array<double, kNumIdleCauses> measured_idle{};
};

// A thread of a trace of a CPU alone. Times in µs; those of the ranges and between them are the same in both steps.
struct ReplayThread {
  std::string name;
  std::size_t ranges = 0;
  double in_ranges = 0;
  double between = 0;  // work between the ranges: Python, and what the profiler does not record
  double end = 0;      // end of its last op
  double measured_end = 0;

  // Time for which it waits for other threads.
  double Waiting() const { return end - in_ranges - between; }
  double MeasuredWaiting() const { return measured_end - in_ranges - between; }
};

struct ReplayErrors {
  double median = 0;  // in µs, absolute
  double p90 = 0;
  double largest = 0;
};

// A measured step beside its simulation. Times in µs.
struct Replay {
  std::size_t ops = 0;
  std::size_t activities = 0;  // of GPUs; in a trace of a CPU alone, op ranges
  double attributed_percent = 0;
  double step_time = 0;
  double measured_step_time = 0;
  double gpu_busy = 0;  // time for which at least one stream of a GPU is busy, summed over all GPUs
  double measured_gpu_busy = 0;
  double measured_own_busy = 0;  // the same without what was launched before the step
  double measured_own_span = 0;  // time from the first start to the last end of activities launched in the step
  std::size_t steps = 1;         // number of steps in the window
  std::string step;              // the one that was replayed: a number, "all" or "mean"
  Unexplained unexplained;       // values of the stream with the most
  std::vector<std::string> gpus;
  std::vector<ReplayStream> streams;
  std::vector<ReplayThread> threads;  // of a trace of a CPU alone, which has no streams
  // The peak of allocated memory in bytes, where such a trace tells it.
  std::optional<double> measured_peak;
  double peak = 0;
  ReplayErrors starts;          // errors of the starts of GPU activities, or of op ranges
  StepExplanation explanation;  // explanation of the simulated step

  double StepError() const { return measured_step_time > 0 ? step_time / measured_step_time - 1 : 0; }
  double UnexplainedPercent() const { return experiments::UnexplainedPercent(step_time, measured_step_time); }
};

// Simulates what a trace was imported as, with the op times of the trace, and compares.
// Requires: `imported` has a cluster, a placement and a measured step.
Replay MakeReplay(const datasets::Imported& imported);

// The mean over several steps, stream by stream; the largest of the starts' errors, and the chain of the first.
// Requires: at least one.
Replay MeanOf(const std::vector<Replay>& replays);

// `emplace.replay`, version 1.
void WriteReplay(std::ostream& out, const Replay& replay, const datasets::Imported& imported);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_VALIDATION_REPLAY_H_
