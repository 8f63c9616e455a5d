#ifndef EMPLACE_PROFILER_MACHINE_MACHINE_PROFILER_H_
#define EMPLACE_PROFILER_MACHINE_MACHINE_PROFILER_H_

#include <functional>
#include <map>
#include <memory>
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

struct MachineProfilerOptions {
  OpProfilerOptions ops;
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
// op cannot be run, or a measurement fails.
MachineProfilerResult ExtendProfile(const Graph& graph, std::span<HardwareDevice* const> devices,
                                    const MachineProfilerOptions& options, Profile* profile,
                                    const std::function<void(const Profile&)>& on_saved,
                                    const std::function<void(const MachineProfilerProgress&)>& on_progress);

}  // namespace emplace::profiler

#endif  // EMPLACE_PROFILER_MACHINE_MACHINE_PROFILER_H_
