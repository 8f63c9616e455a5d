#include "profiler/measure/aggregate.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "sim/base/check.h"
#include "sim/base/json_text.h"
#include "sim/base/statistics.h"

namespace emplace::profiler {
namespace {

// Throws InputError(place) unless there are samples, all of them times.
void CheckMicros(const std::vector<double>& micros, const std::string& place, const std::string& what) {
  if (micros.empty()) throw InputError(place, "no " + what + " was measured");
  for (std::size_t i = 0; i < micros.size(); ++i) {
    if (std::isfinite(micros[i]) && micros[i] >= 0) continue;
    throw InputError(place, what + " " + std::to_string(i) + " of " + std::to_string(micros.size()) + " is " +
                                std::to_string(micros[i]) + " us (expected a finite time, at least 0)");
  }
}

std::vector<double> Sorted(std::vector<double> values) {
  if (values.empty()) throw InputError("", "a quantile of no values was asked for");
  std::sort(values.begin(), values.end());
  return values;
}

}  // namespace

double Spread(const std::vector<double>& micros) {
  const std::vector<double> sorted = Sorted(micros);
  const double width = SortedQuantile(sorted, 0.9) - SortedQuantile(sorted, 0.1);
  const double median = SortedQuantile(sorted, 0.5);
  if (width == 0) return 0;
  return median > 0 ? width / median : std::numeric_limits<double>::infinity();
}

Profile::OpEntry Aggregate(const OpSamples& samples) {
  const std::string place = Quoted(samples.signature) + " on " + Quoted(samples.device_kind);
  CheckMicros(samples.micros, place, "sample");
  const std::vector<double> sorted = Sorted(samples.micros);
  Profile::OpEntry entry;
  entry.signature = samples.signature;
  entry.device = samples.device_kind;
  entry.samples = static_cast<std::int64_t>(sorted.size());
  entry.median_micros = SortedQuantile(sorted, 0.5);
  entry.mean_micros = TrimmedMean(sorted);
  entry.p10_micros = SortedQuantile(sorted, 0.1);
  entry.p90_micros = SortedQuantile(sorted, 0.9);
  if (samples.kernels > 0) entry.kernels = samples.kernels;
  entry.temp = samples.temp;
  return entry;
}

double AggregateGap(const std::vector<double>& gap_micros, const std::string& device_kind) {
  CheckMicros(gap_micros, "op_gap_us of " + Quoted(device_kind), "gap");
  return Median(gap_micros);
}

}  // namespace emplace::profiler
