#ifndef EMPLACE_PROFILER_MACHINE_MACHINE_PROFILER_H_
#define EMPLACE_PROFILER_MACHINE_MACHINE_PROFILER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "profiler/hardware.h"
#include "profiler/measure/contention.h"
#include "profiler/measure/op_profiler.h"
#include "sim/graph.h"
#include "sim/profile.h"

namespace emplace::profiler {

// The part of a step's time, on one device, whose ops have to be known best.
inline constexpr double kMostOfAStep = 0.9;

// How ops are sampled: within whole steps (step_profiler.h), each by itself (op_profiler.h), or within steps where the
// graph is a recorded program whose steps fit in the device's memory.
enum class Sampling : std::uint8_t { kAuto, kSteps, kOps };

struct MachineProfilerOptions {
  OpProfilerOptions ops;
  Sampling sampling = Sampling::kAuto;
  bool links = true;       // between every ordered pair of the devices
  bool contention = true;  // measure contention between two CPUs of one kind
  ContentionOptions contention_options;
  // A meter for a device; by default the clock for a CPU, CUPTI's records for a GPU.
  std::function<std::unique_ptr<OpMeter>(HardwareDevice&)> make_meter;
};

// How it goes: `what` is being measured, `done` of `total`.
struct MachineProfilerProgress {
  std::string what;
  std::size_t done = 0;
  std::size_t total = 0;
  double seconds = 0;  // since `what` began
};

struct MachineProfilerResult {
  std::map<std::string, std::size_t> new_ops;    // keyed by device kind
  std::map<std::string, std::size_t> known_ops;  // distinct ops of the graph that the profile had already
  std::set<std::string> in_steps;                // device kinds whose ops were sampled within whole steps
  std::string not_in_steps;                      // why a recorded program was not; "" if it was
  std::size_t sampled_again = 0;                 // ops of most of the step, which had too few samples
  std::vector<std::string> too_wide;             // signatures whose samples are far apart
  double wide_share = 0;            // share of the time of a step on one device in ops whose samples spread widely
  std::size_t disturbed = 0;        // samples that count though others disturbed the device
  std::size_t repeated_rounds = 0;  // rounds of samples repeated because the records of a GPU were inconsistent
  ClockWatch clocks;                // while ops were measured
};

// Adds to `profile` what the graph needs on these devices and is not in it: op times, once for each kind of device (on
// the first of that kind), as many samples as asked for of the ops that take kMostOfAStep of a step, however long they
// take, the kind's op gap, links by kind (each ordered pair of the devices, those between the same
// kinds together), and how much two busy CPUs slow each other. `on_saved` is called whenever a part is whole, so that
// nothing is lost when it is stopped; `on_progress` now and then, also within such a part. Throws InputError where an
// op cannot be run, a measurement fails, or whole steps that were asked for do not fit in a device's memory.
MachineProfilerResult ExtendProfile(const Graph& graph, std::span<HardwareDevice* const> devices,
                                    const MachineProfilerOptions& options, Profile* profile,
                                    const std::function<void(const Profile&)>& on_saved,
                                    const std::function<void(const MachineProfilerProgress&)>& on_progress);

}  // namespace emplace::profiler

#endif  // EMPLACE_PROFILER_MACHINE_MACHINE_PROFILER_H_
