#ifndef EMPLACE_EXPERIMENTS_REPORT_STATISTICS_H_
#define EMPLACE_EXPERIMENTS_REPORT_STATISTICS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace emplace::experiments {

// One observation: `value` over `per`. For a mean, `per` is 1. For a ratio of means (improvement over seconds) it is
// the other quantity of the same trial, so that both are resampled together.
struct Observed {
  double value = 0;
  double per = 1;
};

// The observations of one cell of a table by graph: one for each seed.
using Sample = std::map<std::string, std::vector<Observed>>;

// Columns over the same graphs, for example one dataset on several clusters. A resampled graph is used in all columns.
using Stratum = std::vector<Sample>;

struct Interval {
  double low = 0;
  double high = 0;
};

struct Estimate {
  double mean = 0;
  std::optional<Interval> interval = {};  // 95 %; none if there is nothing to resample (one graph, one seed)
  std::size_t observations = 0;
  std::size_t graphs = 0;  // distinct names, counted in each stratum
};

// The estimate with the opposite sign.
Estimate Negated(Estimate estimate);

inline constexpr std::size_t kResamples = 2000;
inline constexpr std::uint64_t kReportSeed = 20201;  // seed of every resampling; an arbitrary number

// Sum of values / sum of per over all observations; 0 if the second sum is 0. Requires: at least one observation.
double SampleMean(const Sample& sample);

// The unweighted mean over strata of the unweighted mean over their columns of SampleMean. Columns without observations
// are left out; nullopt if no column has any. The interval is a percentile bootstrap in two stages: graphs are
// resampled with replacement, then seeds within each sampled graph. Strata are resampled independently.
// Source: Efron 1979, "Bootstrap methods: another look at the jackknife"; percentile interval: Efron and Tibshirani
// 1993, "An Introduction to the Bootstrap", 13.3; two stages: Davison and Hinkley 1997, "Bootstrap Methods and their
// Application", 3.8. Cost: O(kResamples * observations).
std::optional<Estimate> EstimateMean(std::span<const Stratum> strata, std::uint64_t seed = kReportSeed);
std::optional<Estimate> EstimateMean(const Sample& sample, std::uint64_t seed = kReportSeed);

// Paired differences by graph, by row of a graph (such as a number of devices), and by seed. No list is empty.
using NestedDifferences = std::vector<std::vector<std::vector<double>>>;

// The mean over seeds, then over rows, of each graph.
std::vector<double> MeansOfGraphs(const NestedDifferences& graphs);
// The mean of these. The interval is the percentile bootstrap's in two stages: graphs are resampled with replacement,
// then the seeds of each row of a sampled graph. It has more resamples than reports, so that a claim does not hold or
// fall by the seed of the random generator.
inline constexpr std::size_t kNestedResamples = 50'000;
Estimate EstimateNestedMean(const NestedDifferences& graphs, std::uint64_t seed = kReportSeed);

// Tests whether paired differences are symmetric about 0.
struct WilcoxonResult {
  std::size_t n = 0;      // number of nonzero differences; zeros are left out
  double rank_sum = 0;    // rank sum of the positive differences
  double p_value = 1;     // two-sided; 1 if n is 0
  bool is_exact = false;  // else the normal approximation
};

// The two-sided signed-rank test. Ties share the mean of their ranks. Exact for n <= 100, else normal with correction
// for ties and continuity. Cost: O(n^3) where exact.
// Source: Wilcoxon 1945, "Individual comparisons by ranking methods"; variance under ties: Lehmann 1975,
// "Nonparametrics", 3.2.
WilcoxonResult WilcoxonSignedRank(std::span<const double> differences);

// p-values adjusted for multiple tests, in the given order. Rejecting those at most alpha keeps the probability of any
// false rejection at most alpha.
// Source: Holm 1979, "A simple sequentially rejective multiple test procedure".
std::vector<double> HolmAdjusted(std::span<const double> p_values);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_STATISTICS_H_
