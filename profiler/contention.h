#ifndef EMPLACE_PROFILER_CONTENTION_H_
#define EMPLACE_PROFILER_CONTENTION_H_

#include <cstddef>
#include <functional>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "profiler/hardware.h"
#include "profiler/op_profiler.h"
#include "sim/profile.h"

namespace emplace {

struct ContentionOptions {
  std::size_t ops_per_class = 4;  // the longest of each class
  double least_micros = 20;       // shorter ones are left out: the clock and the caches would be measured
  std::size_t samples = 15;       // of each op alone, and as many beside a busy neighbour, in turn
  std::uint64_t seed = 1;
};

// The ops of the graph that are asked, by class (Name(OpClass), of the op catalogue): those of each class that the
// profile has the longest times for on `device_kind`. Ops that the catalogue does not know are left out.
std::map<std::string, std::vector<ProfileTask>> ContentionTasks(const Graph& graph, const Profile& profile,
                                                                const std::string& device_kind,
                                                                const ContentionOptions& options);

// How much two busy devices slow each other: for each of these classes the median over its tasks of the median time of
// an op on `device` while `neighbour` runs all tasks of all classes in turn, divided by its median time while the
// neighbour is idle. (Beside the same op over and over, whose tensors stay in the neighbour's own cache, it would be
// less than in a step.) 1: they share nothing that matters. Both must be CPUs. Throws InputError as ProfileOps.
std::map<std::string, double, std::less<>> MeasureContention(
    const std::map<std::string, std::vector<ProfileTask>>& tasks, const std::set<std::string>& classes,
    HardwareDevice& device, HardwareDevice& neighbour, const ContentionOptions& options);

}  // namespace emplace

#endif  // EMPLACE_PROFILER_CONTENTION_H_
