#include "profiler/measure/clock_watch.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace emplace::profiler {

void ClockWatch::Begin(const HardwareDevice& device) {
  if (const std::optional<DeviceClock> clock = device.Clock()) slowed_ns_[device.name()] = clock->slowed_ns;
}

void ClockWatch::End(const HardwareDevice& device) {
  const std::optional<DeviceClock> clock = device.Clock();
  if (!clock) return;
  std::set<std::string> reasons = clock->slowed_by;
  const std::map<std::string, std::uint64_t>& before = slowed_ns_[device.name()];
  for (const auto& [reason, sum] : clock->slowed_ns) {
    const auto known = before.find(reason);
    if (known != before.end() && sum > known->second) reasons.insert(reason);
  }
  Seen& seen = seen_[device.name()];
  ++seen.measurements;
  if (reasons.empty()) return;
  seen.lowest_mhz = seen.slowed == 0 ? clock->mhz : std::min(seen.lowest_mhz, clock->mhz);
  ++seen.slowed;
  seen.reasons.insert(reasons.begin(), reasons.end());
}

void ClockWatch::Add(const ClockWatch& other) {
  for (const auto& [device, more] : other.seen_) {
    Seen& seen = seen_[device];
    if (more.slowed > 0) {
      seen.lowest_mhz = seen.slowed == 0 ? more.lowest_mhz : std::min(seen.lowest_mhz, more.lowest_mhz);
    }
    seen.measurements += more.measurements;
    seen.slowed += more.slowed;
    seen.reasons.insert(more.reasons.begin(), more.reasons.end());
  }
}

std::string ClockWatch::Advice() const {
  std::string text;
  for (const auto& [device, seen] : seen_) {
    if (seen.slowed == 0) continue;
    if (!text.empty()) text += '\n';
    text += fmt::format(
        "the clock of {} was slowed ({}) in {} of {} measurements, to {:.0f} MHz: these times are not of a GPU at its "
        "full clock",
        device, fmt::join(seen.reasons, ", "), seen.slowed, seen.measurements, seen.lowest_mhz);
  }
  return text;
}

}  // namespace emplace::profiler
