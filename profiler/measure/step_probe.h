#ifndef EMPLACE_PROFILER_MEASURE_STEP_PROBE_H_
#define EMPLACE_PROFILER_MEASURE_STEP_PROBE_H_

#include <cstddef>

#include "profiler/hardware.h"
#include "profiler/measure/disturbance.h"

namespace emplace::profiler {

// How much others slowed one device in a step: probes of it before, within and after (disturbance.h). All but
// BeginStep and Slowdown by the device's own thread.
class StepProbe {
 public:
  // Between ops, so seldom that probes take 0.2 % of a step; and from which Slowdown() on a step is called disturbed.
  static constexpr double kEveryMicros = 10'000;
  static constexpr double kCalmStep = 1.1;

  // The probe after the last step is that before this one.
  void BeginStep();
  void Probe(HardwareDevice& device);
  // In a step that began so long ago, if the last probe in it is kEveryMicros old.
  void ProbeWithin(HardwareDevice& device, double micros);
  // Mean over the probes of the step; 1 where there are none.
  double Slowdown() const { return probes_ > 0 ? sum_ / static_cast<double>(probes_) : 1; }

 private:
  DisturbanceWatch watch_;
  double last_micros_ = 0;    // in the step
  double last_slowdown_ = 0;  // 0: none was seen
  double sum_ = 0;
  std::size_t probes_ = 0;
};

}  // namespace emplace::profiler

#endif  // EMPLACE_PROFILER_MEASURE_STEP_PROBE_H_
