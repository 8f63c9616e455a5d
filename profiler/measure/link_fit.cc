#include "profiler/measure/link_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <map>
#include <numeric>
#include <optional>

#include "sim/base/check.h"
#include "sim/base/statistics.h"
#include "sim/cluster.h"

namespace emplace::profiler {
namespace {

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

constexpr double kStraight = 0.1;        // a line is kept if it is off by at most this everywhere
constexpr double kBetterByKnee = 0.5;    // largest ratio of the sums of squares
constexpr std::size_t kSizesToKnee = 3;  // fewer say nothing of what is beyond latency
constexpr std::size_t kSizesBeyond = 2;

// The terms of a relative residual: sum over k of coefficient[k] * column[k] - 1, with columns 1 / time, then the
// bytes up to the knee / time and those beyond it / time.
using Columns = std::array<double, 3>;

Columns ColumnsOf(const LinkFit::Residual& at, Bytes knee) {
  const Bytes straight = knee.count == 0 ? at.size : std::min(at.size, knee);
  return {1 / at.median_micros, static_cast<double>(straight.count) / at.median_micros,
          static_cast<double>((at.size - straight).count) / at.median_micros};
}

// Least squares of the columns from `first` to before `last`; the other coefficients are 0. Gaussian elimination of the
// normal equations, which need no pivoting: their matrix is positive definite.
Columns LeastSquares(const Residuals& medians, Bytes knee, std::size_t first, std::size_t last) {
  std::array<std::array<double, 4>, 3> rows{};
  for (const LinkFit::Residual& at : medians) {
    const Columns columns = ColumnsOf(at, knee);
    for (std::size_t i = first; i < last; ++i) {
      for (std::size_t k = first; k < last; ++k) rows[i][k] += columns[i] * columns[k];
      rows[i][3] += columns[i];
    }
  }
  for (std::size_t i = first; i < last; ++i) {
    for (std::size_t below = i + 1; below < last; ++below) {
      const double factor = rows[below][i] / rows[i][i];
      for (std::size_t k = i; k < rows[i].size(); ++k) rows[below][k] -= factor * rows[i][k];
    }
  }
  Columns coefficients{};
  for (std::size_t i = last; i-- > first;) {
    double rest = rows[i][3];
    for (std::size_t k = i + 1; k < last; ++k) rest -= rows[i][k] * coefficients[k];
    coefficients[i] = rest / rows[i][i];
  }
  return coefficients;
}

struct Fitted {
  Bytes knee;
  Columns coefficients{};
  double squares = 0;
};

Fitted FitWithKnee(const Residuals& medians, Bytes knee) {
  const std::size_t last = knee.count == 0 ? 2 : 3;
  Fitted fitted{knee, LeastSquares(medians, knee, 0, last)};
  if (fitted.coefficients[0] < 0) fitted.coefficients = LeastSquares(medians, knee, 1, last);
  for (const LinkFit::Residual& at : medians) {
    const Columns columns = ColumnsOf(at, knee);
    const double residual = std::inner_product(columns.begin(), columns.end(), fitted.coefficients.begin(), 0.0) - 1;
    fitted.squares += residual * residual;
  }
  return fitted;
}

LinkFit FitOf(const Fitted& fitted, const Residuals& medians) {
  LinkFit fit;
  fit.latency_micros = fitted.coefficients[0];
  fit.bandwidth_gb_per_s = 1e-3 / fitted.coefficients[1];  // bytes per us are MB per s
  fit.knee = fitted.knee;
  if (fit.knee.count > 0) fit.beyond_gb_per_s = 1e-3 / fitted.coefficients[2];
  fit.residuals = medians;
  for (LinkFit::Residual& at : fit.residuals) {
    at.relative = (fit.Micros(at.size) - at.median_micros) / at.median_micros;
    fit.largest_residual = std::max(fit.largest_residual, std::abs(at.relative));
  }
  return fit;
}

// The best with a knee; none if the sizes are too few.
std::optional<Fitted> BestWithKnee(const Residuals& medians) {
  std::optional<Fitted> best;
  for (std::size_t i = kSizesToKnee - 1; i + kSizesBeyond < medians.size(); ++i) {
    const Fitted fitted = FitWithKnee(medians, medians[i].size);
    if (!(fitted.coefficients[1] > 0) || !(fitted.coefficients[2] > 0)) continue;
    if (!best || fitted.squares < best->squares) best = fitted;
  }
  return best;
}

}  // namespace

double LinkFit::Micros(Bytes size) const {
  const Link link{.bandwidth_gb_per_s = bandwidth_gb_per_s, .knee = knee, .beyond_gb_per_s = beyond_gb_per_s};
  return latency_micros + link.MicrosOf(static_cast<double>(size.count));
}

LinkFit FitLink(std::span<const LinkSample> samples, const std::string& link) {
  const Residuals medians = MediansBySize(samples, link);
  const Fitted line = FitWithKnee(medians, {});
  const bool grows = medians.back().median_micros > medians.front().median_micros;
  if (!grows || !(line.coefficients[1] > 0)) {
    throw InputError(link, "copies of " + std::to_string(medians.back().size.count) +
                               " bytes take no longer than those of " + std::to_string(medians.front().size.count) +
                               ": there is no bandwidth to be fitted");
  }
  LinkFit fit = FitOf(line, medians);
  if (fit.largest_residual > kStraight) {
    const std::optional<Fitted> bent = BestWithKnee(medians);
    if (bent && bent->squares < kBetterByKnee * line.squares) fit = FitOf(*bent, medians);
  }
  fit.samples = static_cast<std::int64_t>(samples.size());
  return fit;
}

}  // namespace emplace::profiler
