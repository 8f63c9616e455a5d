#ifndef EMPLACE_PROFILER_CLOCK_H_
#define EMPLACE_PROFILER_CLOCK_H_

#include <chrono>
#include <cstdint>

namespace emplace::profiler {

// Where measurements take the time from: tests have a clock of their own.
class Clock {
 public:
  virtual ~Clock() = default;
  // ns since some moment; never goes back. Safe to call from several threads.
  virtual std::int64_t NowNs() const = 0;
};

class SteadyClock : public Clock {
 public:
  std::int64_t NowNs() const override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
};

}  // namespace emplace::profiler

#endif  // EMPLACE_PROFILER_CLOCK_H_
