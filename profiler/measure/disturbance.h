#ifndef EMPLACE_PROFILER_MEASURE_DISTURBANCE_H_
#define EMPLACE_PROFILER_MEASURE_DISTURBANCE_H_

#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>
#include <utility>

#include "profiler/hardware.h"

namespace emplace::profiler {

// On a machine that is shared, other work on the other half of a physical core makes ops take up to twice as long,
// for seconds at a time. Neither our clock nor the system's load shows it: only the throughput of the core does.

// The time of a fixed piece of work that keeps the arithmetic units of the calling thread's core busy, about 20 us; it
// touches no memory.
double CoreProbeMicros();

// Turbo clocks move a core that is left alone by 10 %; one that is shared is slower by 30 to 90 %.
inline constexpr double kCalmSlowdown = 1.15;

// Tells from probes of one core how much others slow it: against the fastest probe of the last minute, or the fastest
// that is known of the machine. Without that, the longest that another program keeps the core busy without a break has
// to be shorter than a minute.
class DisturbanceWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // `known_micros`: what the fastest probe of an earlier run took; none if there was none.
  explicit DisturbanceWatch(std::optional<double> known_micros = std::nullopt)
      : before_(known_micros), fastest_known_(known_micros) {}

  // `micros`: what a probe took at `now`. Times may not go back. At least 1; over kCalmSlowdown the core is disturbed.
  double Slowdown(double micros, Time now);

  // The fastest of all probes and of what was known before; none if there were none.
  std::optional<double> fastest_micros() const { return fastest_known_; }

  static constexpr std::chrono::seconds kMemory{60};

 private:
  std::optional<double> before_;                 // fastest probe known at the beginning
  std::optional<double> fastest_known_;          // and of all probes since
  std::deque<std::pair<Time, double>> fastest_;  // probes that no later one was as fast as
};

// How much others slowed one device in a step: probes of it before, within and after (disturbance.h). All but
// BeginStep and Slowdown by the device's own thread.
class StepProbe {
 public:
  // Between ops, so seldom that probes take 0.2 % of a step; and from which Slowdown() on a step is called disturbed.
  static constexpr double kEveryMicros = 10'000;
  static constexpr double kCalmStep = 1.1;

  explicit StepProbe(std::optional<double> known_micros = std::nullopt) : watch_(known_micros) {}

  // The probe after the last step is that before this one.
  void BeginStep();
  void Probe(HardwareDevice& device);
  // In a step that began so long ago, if the last probe in it is kEveryMicros old.
  void ProbeWithin(HardwareDevice& device, double micros);
  // Mean over the probes of the step; 1 where there are none.
  double Slowdown() const { return probes_ > 0 ? sum_ / static_cast<double>(probes_) : 1; }

 private:
  DisturbanceWatch watch_;
  double last_micros_ = 0;    // time of the last probe in the step
  double last_slowdown_ = 0;  // 0: none was seen
  double sum_ = 0;
  std::size_t probes_ = 0;
};

}  // namespace emplace::profiler

#endif  // EMPLACE_PROFILER_MEASURE_DISTURBANCE_H_
