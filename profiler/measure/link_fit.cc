#include "profiler/measure/link_fit.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "sim/base/check.h"
#include "sim/base/statistics.h"

namespace emplace::profiler {
namespace {

struct Line {
  double latency;          // us
  double micros_per_byte;  // us
};

using Residuals = std::vector<LinkFit::Residual>;

Residuals MediansBySize(std::span<const LinkSample> samples, const std::string& link) {
  std::map<Bytes, std::vector<double>> by_size;
  for (const LinkSample& sample : samples) {
    if (sample.size.count <= 0 || !std::isfinite(sample.micros) || sample.micros <= 0) {
      throw InputError(link, "a copy of " + std::to_string(sample.size.count) + " bytes took " +
                                 std::to_string(sample.micros) + " us (expected both above 0)");
    }
    by_size[sample.size].push_back(sample.micros);
  }
  if (by_size.size() < 2) {
    throw InputError(link,
                     "copies of " + std::to_string(by_size.size()) +
                         " sizes were measured (expected at least 2: latency and bandwidth cannot be told apart)");
  }
  Residuals medians;
  for (const auto& [size, micros] : by_size) medians.push_back({size, Median(micros), 0});
  return medians;
}

// Weighted least squares. With x = size / time and w = 1 / time, relative residuals are latency * w + slope * x - 1:
// the normal equations of two unknowns.
Line LeastSquares(const Residuals& medians) {
  double ww = 0, wx = 0, xx = 0, w = 0, x = 0;
  for (const LinkFit::Residual& at : medians) {
    const double weight = 1 / at.median_micros;
    const double scaled = static_cast<double>(at.size.count) * weight;
    ww += weight * weight;
    wx += weight * scaled;
    xx += scaled * scaled;
    w += weight;
    x += scaled;
  }
  const double determinant = ww * xx - wx * wx;
  const Line line{(w * xx - x * wx) / determinant, (ww * x - wx * w) / determinant};
  return line.latency >= 0 ? line : Line{0, x / xx};
}

}  // namespace

LinkFit FitLink(std::span<const LinkSample> samples, const std::string& link) {
  LinkFit fit;
  fit.residuals = MediansBySize(samples, link);
  fit.samples = static_cast<std::int64_t>(samples.size());
  const Line line = LeastSquares(fit.residuals);
  const bool grows = fit.residuals.back().median_micros > fit.residuals.front().median_micros;
  if (!grows || !(line.micros_per_byte > 0)) {
    throw InputError(
        link, "copies of " + std::to_string(fit.residuals.back().size.count) + " bytes take no longer than those of " +
                  std::to_string(fit.residuals.front().size.count) + ": there is no bandwidth to be fitted");
  }
  fit.latency_micros = line.latency;
  fit.bandwidth_gb_per_s = 1e-3 / line.micros_per_byte;  // bytes per us are MB per s
  for (LinkFit::Residual& at : fit.residuals) {
    const double fitted = line.latency + line.micros_per_byte * static_cast<double>(at.size.count);
    at.relative = (fitted - at.median_micros) / at.median_micros;
    fit.largest_residual = std::max(fit.largest_residual, std::abs(at.relative));
  }
  return fit;
}

}  // namespace emplace::profiler
