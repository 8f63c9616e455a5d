#ifndef EMPLACE_EXPERIMENTS_VALIDATION_REPLAY_H_
#define EMPLACE_EXPERIMENTS_VALIDATION_REPLAY_H_

#include <array>
#include <cstddef>
#include <iosfwd>
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

// Times in µs.
struct ReplayStream {
  std::string name;
  std::size_t activities = 0;
  double busy = 0;
  double measured_busy = 0;
  std::array<double, kNumIdleCauses> idle{};  // by IdleCause
  std::array<double, kNumIdleCauses> measured_idle{};
};

struct ReplayErrors {
  double median = 0;  // in µs, absolute
  double p90 = 0;
  double largest = 0;
};

// A measured step beside its simulation. Times in µs.
struct Replay {
  std::size_t ops = 0;
  std::size_t activities = 0;
  double attributed_percent = 0;
  double step_time = 0;
  double measured_step_time = 0;
  double gpu_busy = 0;  // of each GPU the time in which at least one of its streams is busy; the sum over all GPUs
  double measured_gpu_busy = 0;
  std::vector<std::string> gpus;
  std::vector<ReplayStream> streams;
  ReplayErrors starts;          // of GPU activities
  StepExplanation explanation;  // of the simulated step

  double StepError() const { return measured_step_time > 0 ? step_time / measured_step_time - 1 : 0; }
};

// Simulates what a trace was imported as, with the op times of the trace, and compares.
// Requires: `imported` has a cluster, a placement and a measured step.
Replay MakeReplay(const datasets::Imported& imported);

// `emplace.replay`, version 1.
void WriteReplay(std::ostream& out, const Replay& replay, const datasets::Imported& imported);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_VALIDATION_REPLAY_H_
