#include "profiler/measure/disturbance.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>

namespace emplace::profiler {
namespace {

// More chains of products than a core has units for, so that another thread's instructions cost time.
constexpr std::size_t kChains = 8;
constexpr std::size_t kRounds = 1500;

std::atomic<std::uint32_t> sink;

}  // namespace

double CoreProbeMicros() {
  std::array<double, kChains> reals = {1, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7};
  std::array<std::uint32_t, kChains> whole = {1, 2, 3, 4, 5, 6, 7, 8};
  const auto start = std::chrono::steady_clock::now();
  for (std::size_t round = 0; round < kRounds; ++round) {
    for (std::size_t i = 0; i < kChains; ++i) {
      reals[i] = reals[i] * 0.999 + 0.001;
      whole[i] = whole[i] * 1664525U + 1013904223U;
    }
  }
  std::uint32_t sum = 0;
  for (std::size_t i = 0; i < kChains; ++i) sum += whole[i] + static_cast<std::uint32_t>(reals[i]);
  sink.store(sum, std::memory_order_relaxed);
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
}

double DisturbanceWatch::Slowdown(double micros, Time now) {
  while (!fastest_.empty() && fastest_.front().first + kMemory < now) fastest_.pop_front();
  while (!fastest_.empty() && fastest_.back().second >= micros) fastest_.pop_back();
  fastest_.emplace_back(now, micros);
  fastest_known_ = std::min(fastest_known_.value_or(micros), micros);
  return micros / std::min(fastest_.front().second, before_.value_or(micros));
}

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
