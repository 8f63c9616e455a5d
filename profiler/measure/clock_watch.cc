#include "profiler/measure/clock_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace emplace::profiler {

void ClockWatch::Look(const HardwareDevice& device) {
  const std::optional<DeviceClock> clock = device.Clock();
  if (!clock) return;
  Seen& seen = seen_[device.name()];
  seen.lowest_mhz = seen.looks == 0 ? clock->mhz : std::min(seen.lowest_mhz, clock->mhz);
  seen.highest_mhz = std::max(seen.highest_mhz, clock->mhz);
  ++seen.looks;
  seen.held_back += clock->held_back_by.empty() ? 0 : 1;
  seen.reasons.insert(clock->held_back_by.begin(), clock->held_back_by.end());
}

void ClockWatch::Add(const ClockWatch& other) {
  for (const auto& [device, more] : other.seen_) {
    Seen& seen = seen_[device];
    seen.lowest_mhz = seen.looks == 0 ? more.lowest_mhz : std::min(seen.lowest_mhz, more.lowest_mhz);
    seen.highest_mhz = std::max(seen.highest_mhz, more.highest_mhz);
    seen.looks += more.looks;
    seen.held_back += more.held_back;
    seen.reasons.insert(more.reasons.begin(), more.reasons.end());
  }
}

std::string ClockWatch::Advice() const {
  std::string text;
  for (const auto& [device, seen] : seen_) {
    if (seen.held_back == 0) continue;
    if (!text.empty()) text += '\n';
    text += fmt::format(
        "the clock of {} was held back ({}) in {} of {} measurements, at {:.0f} to {:.0f} MHz: a cooler GPU, or one "
        "with a higher limit, is faster",
        device, fmt::join(seen.reasons, ", "), seen.held_back, seen.looks, seen.lowest_mhz, seen.highest_mhz);
  }
  return text;
}

}  // namespace emplace::profiler
