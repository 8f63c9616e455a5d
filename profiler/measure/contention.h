#ifndef EMPLACE_PROFILER_MEASURE_CONTENTION_H_
#define EMPLACE_PROFILER_MEASURE_CONTENTION_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "profiler/clock.h"
#include "profiler/hardware.h"
#include "profiler/measure/op_profiler.h"
#include "sim/profile.h"

namespace emplace::profiler {

struct ContentionOptions {
  std::size_t samples = 40;        // samples of each op alone, and the same number with a busy neighbour
  double seconds = 0.5;            // spent on one op at most; at least its `fewest_samples` are taken
  Bytes batch_memory = {1 << 30};  // tensors that are held at a time, and as many for the neighbour
  std::uint64_t seed = 1;
  SampleLog* log = nullptr;  // see OpProfilerOptions
};

// The distinct ops of the graph that the profile has a time for on `device_kind`, in the order of the graph. Views,
// which take nothing, are left out.
std::vector<ProfileTask> TimedTasks(const Graph& graph, const Profile& profile, const std::string& device_kind);

// A load that keeps a device busy as a step would.
struct Busywork {
  std::vector<ProfileTask> tasks;
  std::vector<std::size_t> order;  // numbers in the order in which they run, repeatedly
};
// The total time of each task in a step on one device, in µs. `tasks`: the graph's distinct ops, with their times.
std::vector<double> MicrosInAStep(const Graph& graph, const std::vector<ProfileTask>& tasks);

// Ops of the graph, by the number of their task, that together take `share` of the time of all its ops on one device:
// the fewest. `tasks` as above.
std::vector<std::size_t> LargestTasks(const Graph& graph, const std::vector<ProfileTask>& tasks, double share);

// The graph's ops in their order, as often as it has them. Where the tensors of `tasks`, the distinct ones, need more
// than `memory`, those that take most of the step's time.
Busywork BusyworkOf(const Graph& graph, const std::vector<ProfileTask>& tasks, Bytes memory);

// How much two busy devices slow each other: of each task its median time on `device` while `neighbour` does `others`
// without end, divided by its median time while the neighbour is idle. 1: they share nothing that matters. All tasks
// are sampled one after the other, alone and beside the neighbour in turn, so that a disturbance spreads. `on_batch` is
// called with the first task of a batch that is complete and its factors, `on_progress` with how many tasks are done,
// now and then. Both must be CPUs. Throws InputError as ProfileOps.
void MeasureContention(const std::vector<ProfileTask>& tasks, const Busywork& others, HardwareDevice& device,
                       HardwareDevice& neighbour, const ContentionOptions& options, const Clock& clock,
                       const std::function<void(std::size_t, const std::vector<double>&)>& on_batch,
                       const std::function<void(std::size_t)>& on_progress);

// The median of the factors of each class's ops that the profile has for `device_kind`.
std::map<std::string, double, std::less<>> ContentionByClass(const Profile& profile, const std::string& device_kind);

}  // namespace emplace::profiler

#endif  // EMPLACE_PROFILER_MEASURE_CONTENTION_H_
