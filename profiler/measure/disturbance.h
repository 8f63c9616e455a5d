#ifndef EMPLACE_PROFILER_MEASURE_DISTURBANCE_H_
#define EMPLACE_PROFILER_MEASURE_DISTURBANCE_H_

#include <chrono>
#include <deque>
#include <utility>

namespace emplace::profiler {

// On a machine that is shared, other work on the other half of a physical core makes ops take up to twice as long,
// for seconds at a time. Neither our clock nor the system's load shows it: only the throughput of the core does.

// The time of a fixed piece of work that keeps the arithmetic units of the calling thread's core busy, about 20 us; it
// touches no memory.
double CoreProbeMicros();

// Turbo clocks move a core that is left alone by 10 %; one that is shared is slower by 30 to 90 %.
inline constexpr double kCalmSlowdown = 1.15;

// Tells from probes of one core how much others slow it: against the fastest probe of the last minute. The longest that
// another program keeps it busy without a break has to be shorter than that.
class DisturbanceWatch {
 public:
  using Time = std::chrono::steady_clock::time_point;

  // `micros`: what a probe took at `now`. Times may not go back. At least 1; over kCalmSlowdown the core is disturbed.
  double Slowdown(double micros, Time now);

  static constexpr std::chrono::seconds kMemory{60};

 private:
  std::deque<std::pair<Time, double>> fastest_;  // probes that no later one was as fast as
};

}  // namespace emplace::profiler

#endif  // EMPLACE_PROFILER_MEASURE_DISTURBANCE_H_
