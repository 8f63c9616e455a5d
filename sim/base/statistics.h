#ifndef EMPLACE_SIM_BASE_STATISTICS_H_
#define EMPLACE_SIM_BASE_STATISTICS_H_

#include <span>
#include <vector>

namespace emplace {

// The q-quantile of ascending values, linear between neighbours. Requires: not empty, 0 <= q <= 1.
// Source: Hyndman and Fan 1996, "Sample quantiles in statistical packages", definition 7.
double SortedQuantile(std::span<const double> sorted, double q);

// The same for values in any order, without NaN. Reorders them. Takes time linear in their number on average.
double SelectQuantile(std::span<double> values, double q);

// The same, on a copy. Throws InputError if there are no values.
double Quantile(std::vector<double> values, double q);
double Median(std::vector<double> values);

// The mean of all but the tenth of the values at either end (of fewer than ten, of all): sums of such means are nearer
// to the means of sums than sums of medians are, and a disturbed value does not spoil them. Throws InputError if there
// are not values.
double TrimmedMean(std::vector<double> values);

// The rank of each value: 1 is the smallest; ties share the mean of their ranks.
std::vector<double> Ranks(std::span<const double> values);

}  // namespace emplace

#endif  // EMPLACE_SIM_BASE_STATISTICS_H_
