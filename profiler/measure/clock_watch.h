#ifndef EMPLACE_PROFILER_MEASURE_CLOCK_WATCH_H_
#define EMPLACE_PROFILER_MEASURE_CLOCK_WATCH_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>

#include "profiler/hardware.h"

namespace emplace::profiler {

// Whether the clocks of devices were slowed while something was measured on them. Not thread-safe. A look takes about a
// millisecond, so it comes before and after a measurement. What slowed a GPU in between is in its sums of time, where
// it keeps them; otherwise it is seen only if it still lasts.
class ClockWatch {
 public:
  void Begin(const HardwareDevice& device);
  void End(const HardwareDevice& device);
  // Merges the observations of another watch.
  void Add(const ClockWatch& other);
  // One sentence for each device that was slowed: how often, by what, and its lowest clock then; "" if none was.
  std::string Advice() const;

 private:
  struct Seen {
    std::size_t measurements = 0;
    std::size_t slowed = 0;
    double lowest_mhz = 0;  // lowest clock among those
    std::set<std::string> reasons;
  };
  std::map<std::string, Seen> seen_;                                       // keyed by device
  std::map<std::string, std::map<std::string, std::uint64_t>> slowed_ns_;  // keyed by device and reason, at Begin
};

}  // namespace emplace::profiler

#endif  // EMPLACE_PROFILER_MEASURE_CLOCK_WATCH_H_
