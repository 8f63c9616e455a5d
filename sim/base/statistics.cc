#include "sim/base/statistics.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "sim/base/check.h"

namespace emplace {

double SortedQuantile(std::span<const double> sorted, double q) {
  EMPLACE_CHECK(!sorted.empty());
  EMPLACE_CHECK(q >= 0 && q <= 1);
  const double position = q * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(position);
  if (below + 1 >= sorted.size()) return sorted.back();
  const double part = position - static_cast<double>(below);
  return sorted[below] + part * (sorted[below + 1] - sorted[below]);
}

double Quantile(std::vector<double> values, double q) {
  if (values.empty()) throw InputError("", "a quantile of no values was asked for");
  std::sort(values.begin(), values.end());
  return SortedQuantile(values, q);
}

double Median(std::vector<double> values) { return Quantile(std::move(values), 0.5); }

}  // namespace emplace
