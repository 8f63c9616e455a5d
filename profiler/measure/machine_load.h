#ifndef EMPLACE_PROFILER_MEASURE_MACHINE_LOAD_H_
#define EMPLACE_PROFILER_MEASURE_MACHINE_LOAD_H_

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/hardware.h"

namespace emplace::profiler {

// Seconds that some cores have worked since the machine started: for any program, and for other virtual machines.
struct CoreSeconds {
  double busy = 0;
  double stolen = 0;
};
// `stat`: the text of /proc/stat, whose lines "cpuN" count in ticks. nullopt if it lacks one of the cores.
std::optional<CoreSeconds> ReadCoreSeconds(std::string_view stat, const std::vector<int>& cores,
                                           double ticks_per_second);

// The load of other programs on the cores of some devices since the watch was created. Probes (disturbance.h) see what
// slows a core for the length of a step; this sees what runs instead of us, in time slices, which a probe mostly
// misses.
class LoadWatch {
 public:
  // Watches the cores of those devices that have one.
  explicit LoadWatch(const std::vector<HardwareDevice*>& devices);

  // How many of the cores others kept busy, on average: 0 to their number. nullopt where the system does not tell, and
  // in the first tenth of a second.
  std::optional<double> OthersBusyCores() const;
  std::size_t num_cores() const { return cores_.size(); }

 private:
  struct Reading {
    std::chrono::steady_clock::time_point at;
    CoreSeconds cores;
    double own_seconds = 0;
  };
  std::optional<Reading> Read() const;

  std::vector<int> cores_;
  std::optional<Reading> start_;
};

// From here on, times that were measured are not those of an idle machine.
inline constexpr double kBusyShare = 0.05;  // share of the cores

// "other programs kept 0.9 of 2 cores busy meanwhile, so times are too long: ..."; "" if they did little.
std::string AdviceOnLoad(std::optional<double> others_busy_cores, std::size_t num_cores);

}  // namespace emplace::profiler

#endif  // EMPLACE_PROFILER_MEASURE_MACHINE_LOAD_H_
