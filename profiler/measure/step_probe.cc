#include "profiler/measure/step_probe.h"

#include <chrono>
#include <optional>

namespace emplace::profiler {

void StepProbe::BeginStep() {
  last_micros_ = 0;
  sum_ = last_slowdown_;
  probes_ = last_slowdown_ > 0 ? 1 : 0;
}

void StepProbe::Probe(HardwareDevice& device) {
  const std::optional<double> micros = device.ProbeMicros();
  if (!micros) return;
  last_slowdown_ = watch_.Slowdown(*micros, std::chrono::steady_clock::now());
  sum_ += last_slowdown_;
  ++probes_;
}

void StepProbe::ProbeWithin(HardwareDevice& device, double micros) {
  if (micros - last_micros_ < kEveryMicros) return;
  last_micros_ = micros;
  Probe(device);
}

}  // namespace emplace::profiler
