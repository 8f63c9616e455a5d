#ifndef EMPLACE_PROFILER_MEASURE_LINK_FIT_H_
#define EMPLACE_PROFILER_MEASURE_LINK_FIT_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "sim/base/units.h"

namespace emplace::profiler {

// One copy from a device to another.
struct LinkSample {
  Bytes size;
  double micros = 0;
};

// time(size) = latency + size / bandwidth, and how far from it the copies were. With a knee the bytes beyond it go at
// another bandwidth: out of a cache, in more streams than one, or through a buffer.
struct LinkFit {
  struct Residual {
    Bytes size;
    double median_micros = 0;  // measured
    double relative = 0;       // (fitted - measured) / measured
  };
  double latency_micros = 0;  // at least 0
  double bandwidth_gb_per_s = 0;
  Bytes knee = {};             // 0: there is none
  double beyond_gb_per_s = 0;  // 0: there is no knee
  std::int64_t samples = 0;
  std::vector<Residual> residuals;  // ascending sizes
  double largest_residual = 0;      // largest |relative|

  double Micros(Bytes size) const;
};

// The line that makes the sum of squared relative residuals of the medians per size least: weighted least squares with
// weights 1 / median^2, so that 1 KiB counts as much as 256 MiB; medians, because now and then a copy is interrupted. A
// latency below 0 is set to 0 and the bandwidth fitted again. Where a line is off by more than a tenth somewhere, one
// with a knee at one of the sizes is tried: at least three sizes up to the knee, two beyond it. It is taken if the sum
// is less than half of the line's. `link` is for messages.
// Throws InputError(link) if there are not at least two sizes, a size or time is not above 0, or large copies take no
// longer than small ones.
LinkFit FitLink(std::span<const LinkSample> samples, const std::string& link);

}  // namespace emplace::profiler

#endif  // EMPLACE_PROFILER_MEASURE_LINK_FIT_H_
