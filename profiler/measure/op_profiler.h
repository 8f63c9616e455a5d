#ifndef EMPLACE_PROFILER_MEASURE_OP_PROFILER_H_
#define EMPLACE_PROFILER_MEASURE_OP_PROFILER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "profiler/hardware.h"
#include "profiler/measure/clock_watch.h"
#include "profiler/measure/sample_log.h"
#include "profiler/recipe.h"
#include "sim/graph.h"
#include "sim/profile.h"

namespace emplace::profiler {

// One signature that is to be measured.
struct ProfileTask {
  std::string signature;  // full (profile.h)
  OpRecipe recipe;
  std::vector<bool> fresh;         // FreshInputs()
  double micros = 0;               // known time; 0 if unknown
  std::size_t fewest_samples = 3;  // samples that are always taken, unless fewer are requested
};

// By input of the op: whether an op has made it in this step. What `variable` ops hold has been there for long.
std::vector<bool> FreshInputs(const Graph& graph, OpId op);

// Before an op is run for a sample: leaves a CPU's caches as a step would, in which other ops have run since this one
// did, but its inputs have just been made, weights excepted, and its outputs go where tensors have just been freed. So
// fresh inputs are touched, and so are the outputs of its last run, which are then freed.
void LeaveAsInAStep(HardwareDevice& device, const std::vector<TensorHandle>& inputs, const std::vector<bool>& fresh,
                    std::vector<TensorHandle>* outputs);

// The distinct ops of the graph that `profile` has no time for on this kind of device, in the order of the graph.
// `input` and `variable` ops take none. Throws InputError(op name) where an op has a tensor without dtype and shape.
std::vector<ProfileTask> MissingOps(const Graph& graph, const Profile& profile, const std::string& device_kind);

// How many samples of `micros` each `seconds` are enough for: at most `most`, at least `fewest` or `most`.
std::size_t SamplesWithin(double seconds, double micros, std::size_t fewest, std::size_t most);
// The total size of the inputs and outputs of an op.
std::int64_t BytesOf(const OpRecipe& recipe);
// Tasks from the first on whose tensors fit in `memory` together: at least one, at most 4096.
std::span<const ProfileTask> NextBatch(std::span<const ProfileTask> tasks, Bytes memory);

struct OpProfilerOptions {
  std::size_t samples = 20;     // samples of each signature within `seconds`
  double seconds = 0.5;         // spent on one signature; at least its `fewest_samples` are taken
  double wide_spread = 0.25;    // (p90 - p10) / median from which on it is measured again
  std::size_t repeats = 2;      // maximum number of repeats if the spread is too large
  double patience_seconds = 0;  // spent, in all, on samples that do not count because others disturbed the device
  std::optional<double> known_probe_micros = {};  // the fastest probe of the device that is known (disturbance.h)
  Bytes batch_memory = {1 << 30};                 // inputs that are held at a time
  std::uint64_t seed = 1;                         // seed of the contents
  SampleLog* log =
      nullptr;  // log that keeps samples until a signature is complete, and whose samples are reused; may be null
};

// Takes samples of ops on one device. Its calls come from the device's own thread.
class OpMeter {
 public:
  virtual ~OpMeter() = default;
  virtual void Begin() = 0;
  // Runs the kernel once, as sample of task `task`.
  virtual void Sample(std::size_t task, OpKernel& kernel, const std::vector<TensorHandle>& inputs,
                      std::vector<TensorHandle>* outputs) = 0;
  // The time of the last sample, in µs; none if only End() determines it.
  virtual std::optional<double> LastMicros() const { return std::nullopt; }
  // The measurements between Begin() and End(): for each task its samples, in µs, and how many kernels a run launches.
  struct Measured {
    std::vector<double> micros;
    std::int64_t kernels = 0;
  };
  virtual std::map<std::size_t, Measured> End() = 0;
  // Instead of End(), where what was sampled is not wanted.
  virtual void Abandon() {}
  // Idle times of the device between ops that could follow each other at once, in µs; empty on a device that shows none
  // here. Not between Begin and End. Throws as they do.
  virtual std::vector<double> MeasureGaps() { return {}; }
};
// By the clock around each run, for devices that are never behind.
std::unique_ptr<OpMeter> MakeClockMeter();

// The progress of an op profiler.
struct OpProfilerProgress {
  std::size_t done = 0;
  std::size_t total = 0;
  double seconds = 0;  // since it began
};

struct OpProfilerResult {
  std::vector<Profile::OpEntry> ops;  // one for each task, in order
  std::vector<std::string> too_wide;  // signatures whose samples are still far apart
  // By signature, samples that count though others disturbed the device.
  std::map<std::string, std::size_t> disturbed;
  double patience_seconds = 0;  // left
  std::optional<double>
      fastest_probe_micros;         // fastest probe on the device, including known ones; none without patience
  std::size_t repeated_rounds = 0;  // rounds whose records were inconsistent (ActivityError)
  ClockWatch clock;                 // clock of the device after each round
};

// Measures the tasks on `device`, from the calling thread, which becomes the device's own. Samples of different ops are
// taken in turn, so that a disturbance spreads over many ops instead of spoiling one, and so that code and weights are
// as cold as within a step (LeaveAsInAStep). Samples before or after which a probe shows that the device is disturbed
// (disturbance.h) are taken again until patience_seconds are used up, of which every op has an equal share, plus what
// the ops before it did not use; the least disturbed samples count. Temporary
// memory is the most that one run allocates beyond its outputs. On a device that runs behind the host (a GPU) no sample
// is shorter than what the host's call takes (median of nine on one core, the device idle): in a row of small ops that
// is what one after the other takes, however soon the device is done with each. A round whose records cannot be trusted
// is run again, three times at most in all. `on_batch` is called with what is complete since its last call, now and
// then; throw to stop. Throws InputError(op name) where an op cannot run, and names it if memory does not suffice.
OpProfilerResult ProfileOps(
    const std::vector<ProfileTask>& tasks, HardwareDevice& device, OpMeter& meter, const OpProfilerOptions& options,
    const std::function<void(const OpProfilerProgress&, const std::vector<Profile::OpEntry>&)>& on_batch);

}  // namespace emplace::profiler

#endif  // EMPLACE_PROFILER_MEASURE_OP_PROFILER_H_
