#include "sim/base/statistics.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
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

double SelectQuantile(std::span<double> values, double q) {
  EMPLACE_CHECK(!values.empty());
  EMPLACE_CHECK(q >= 0 && q <= 1);
  const auto below = values.begin() + static_cast<std::ptrdiff_t>(q * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), below, values.end());
  // The two values between which the quantile lies are now where sorting would put them.
  if (below + 1 != values.end()) std::iter_swap(below + 1, std::min_element(below + 1, values.end()));
  return SortedQuantile(values, q);
}

double Quantile(std::vector<double> values, double q) {
  if (values.empty()) throw InputError("", "a quantile of no values was asked for");
  return SelectQuantile(values, q);
}

double Median(std::vector<double> values) { return Quantile(std::move(values), 0.5); }

double TrimmedMean(std::vector<double> values) {
  if (values.empty()) throw InputError("", "a mean of no values was asked for");
  std::sort(values.begin(), values.end());
  const auto cut = static_cast<std::ptrdiff_t>(values.size() / 10);
  return std::accumulate(values.begin() + cut, values.end() - cut, 0.0) /
         static_cast<double>(values.size() - 2 * static_cast<std::size_t>(cut));
}

std::vector<double> Ranks(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return values[a] < values[b]; });
  std::vector<double> ranks(values.size());
  for (std::size_t first = 0; first < order.size();) {
    std::size_t end = first + 1;
    while (end < order.size() && values[order[end]] == values[order[first]]) ++end;
    const double shared = static_cast<double>(first + 1 + end) / 2;
    for (; first < end; ++first) ranks[order[first]] = shared;
  }
  return ranks;
}

}  // namespace emplace
