#ifndef EMPLACE_PROFILER_MEASURE_CLOCK_WATCH_H_
#define EMPLACE_PROFILER_MEASURE_CLOCK_WATCH_H_

#include <cstddef>
#include <map>
#include <set>
#include <string>

#include "profiler/hardware.h"

namespace emplace::profiler {

// What the clocks of devices were while something was measured on them. Not thread-safe.
class ClockWatch {
 public:
  // Reads the device's clock, if it has one that can be read. Takes about a millisecond: not while ops are timed, but
  // right after, before an idle device lowers its clock.
  void Look(const HardwareDevice& device);
  // What another watch has seen, too.
  void Add(const ClockWatch& other);
  // One sentence of each device that was held back: how often, by what, and its clocks; "" if none was.
  std::string Advice() const;

 private:
  struct Seen {
    std::size_t looks = 0;
    std::size_t held_back = 0;
    double lowest_mhz = 0;
    double highest_mhz = 0;
    std::set<std::string> reasons;
  };
  std::map<std::string, Seen> seen_;  // by device
};

}  // namespace emplace::profiler

#endif  // EMPLACE_PROFILER_MEASURE_CLOCK_WATCH_H_
