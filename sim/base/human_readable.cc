#include "sim/base/human_readable.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>

namespace emplace {

std::string HumanReadable(Bytes bytes) {
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes.count < 1024) return fmt::format("{} B", bytes.count);
  double value = static_cast<double>(bytes.count) / 1024;
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < std::size(kUnits); ++unit) value /= 1024;
  return fmt::format("{:.2f} {}", value, kUnits[unit]);
}

std::string HumanReadableMicros(double micros) {
  if (micros < 1000) return fmt::format("{} us", std::round(micros * 1000) / 1000);  // rounded to ns
  if (micros < 1e6) return fmt::format("{:.3f} ms", micros / 1e3);
  return fmt::format("{:.3f} s", micros / 1e6);
}

std::string HumanReadableSeconds(double seconds) {
  if (seconds < 90) return fmt::format("{:.0f} s", std::max(seconds, 1.0));
  if (seconds < 90 * 60) return fmt::format("{:.0f} min", seconds / 60);
  return fmt::format("{:.1f} h", seconds / 3600);
}

}  // namespace emplace
