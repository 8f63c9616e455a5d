#include "experiments/report/statistics.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "sim/base/check.h"
#include "sim/base/rng.h"
#include "sim/base/statistics.h"

namespace emplace::experiments {
namespace {

constexpr std::size_t kExactUpTo = 20;

// The sums from which a cell's statistic is computed.
struct Sums {
  double value = 0;
  double per = 0;
  std::size_t count = 0;

  void Add(const Observed& observed) {
    value += observed.value;
    per += observed.per;
    ++count;
  }
  double Ratio() const { return per == 0 ? 0 : value / per; }
};

// A stratum arranged for resampling: [graph][column] -> observations (null: none).
struct DrawTable {
  std::size_t columns = 0;
  std::vector<std::vector<const std::vector<Observed>*>> graphs;
};

DrawTable MakeDrawTable(const Stratum& stratum) {
  std::set<std::string> names;
  for (const Sample& sample : stratum) {
    for (const auto& [graph, observed] : sample) {
      if (!observed.empty()) names.insert(graph);
    }
  }
  DrawTable table{.columns = stratum.size(), .graphs = {}};
  for (const std::string& name : names) {
    auto& row = table.graphs.emplace_back();
    for (const Sample& sample : stratum) {
      const auto found = sample.find(name);
      row.push_back(found == sample.end() || found->second.empty() ? nullptr : &found->second);
    }
  }
  return table;
}

// The mean over columns with observations; nullopt if there is none.
std::optional<double> MeanOverColumns(const std::vector<Sums>& columns) {
  double sum = 0;
  std::size_t count = 0;
  for (const Sums& column : columns) {
    if (column.count == 0) continue;
    sum += column.Ratio();
    ++count;
  }
  if (count == 0) return std::nullopt;
  return sum / static_cast<double>(count);
}

std::vector<Sums> SumAll(const DrawTable& table) {
  std::vector<Sums> columns(table.columns);
  for (const auto& row : table.graphs) {
    for (std::size_t c = 0; c < table.columns; ++c) {
      if (row[c] == nullptr) continue;
      for (const Observed& observed : *row[c]) columns[c].Add(observed);
    }
  }
  return columns;
}

std::vector<Sums> SumDrawn(const DrawTable& table, Rng& rng) {
  std::vector<Sums> columns(table.columns);
  for (std::size_t i = 0; i < table.graphs.size(); ++i) {
    const auto& row = table.graphs[rng.Below(table.graphs.size())];
    for (std::size_t c = 0; c < table.columns; ++c) {
      if (row[c] == nullptr) continue;
      const std::vector<Observed>& seeds = *row[c];
      for (std::size_t s = 0; s < seeds.size(); ++s)
        columns[c].Add(seeds.size() == 1 ? seeds[0] : seeds[rng.Below(seeds.size())]);
    }
  }
  return columns;
}

bool CanBeDrawnFrom(const DrawTable& table) {
  if (table.graphs.size() > 1) return true;
  for (const auto& row : table.graphs) {
    for (const auto* seeds : row) {
      if (seeds != nullptr && seeds->size() > 1) return true;
    }
  }
  return false;
}

template <typename SumsOf>
double MeanOverStrata(const std::vector<DrawTable>& tables, const SumsOf& sums_of) {
  double sum = 0;
  std::size_t count = 0;
  for (const DrawTable& table : tables) {
    if (const auto mean = MeanOverColumns(sums_of(table))) {
      sum += *mean;
      ++count;
    }
  }
  return sum / static_cast<double>(count);
}

// The sum of t^3 - t over groups of t equal ranks.
double SumOfTies(const std::vector<double>& ranks) {
  std::map<double, double> sizes;
  for (const double rank : ranks) ++sizes[rank];
  return std::accumulate(sizes.begin(), sizes.end(), 0.0, [](double sum, const auto& group) {
    return sum + group.second * group.second * group.second - group.second;
  });
}

// P(rank sum <= at_most) if each of the ranks 1..n is positive with probability 1/2: counts subsets by their sum.
double ExactLowerTail(std::size_t n, std::size_t at_most) {
  std::vector<double> subsets(n * (n + 1) / 2 + 1);
  subsets[0] = 1;
  for (std::size_t rank = 1; rank <= n; ++rank) {
    for (std::size_t sum = subsets.size(); sum-- > rank;) subsets[sum] += subsets[sum - rank];
  }
  double count = 0;
  for (std::size_t sum = 0; sum <= at_most; ++sum) count += subsets[sum];
  return std::ldexp(count, -static_cast<int>(n));
}

double NormalPValue(double n, double rank_sum, double ties) {
  const double variance = n * (n + 1) * (2 * n + 1) / 24 - ties / 48;
  const double distance = std::max(0.0, std::abs(rank_sum - n * (n + 1) / 4) - 0.5);
  return variance > 0 ? std::erfc(distance / std::sqrt(2 * variance)) : 1;
}

}  // namespace

Estimate Negated(Estimate estimate) {
  estimate.mean = -estimate.mean;
  if (estimate.interval) estimate.interval = Interval{-estimate.interval->high, -estimate.interval->low};
  return estimate;
}

double SampleMean(const Sample& sample) {
  Sums sums;
  for (const auto& [graph, observations] : sample) {
    for (const Observed& observed : observations) sums.Add(observed);
  }
  EMPLACE_CHECK(sums.count > 0);
  return sums.Ratio();
}

std::optional<Estimate> EstimateMean(std::span<const Stratum> strata, std::uint64_t seed) {
  std::vector<DrawTable> tables;
  Estimate estimate;
  bool can_be_drawn = false;
  for (const Stratum& stratum : strata) {
    DrawTable table = MakeDrawTable(stratum);
    if (table.graphs.empty()) continue;
    for (const Sums& column : SumAll(table)) estimate.observations += column.count;
    estimate.graphs += table.graphs.size();
    can_be_drawn = can_be_drawn || CanBeDrawnFrom(table);
    tables.push_back(std::move(table));
  }
  if (tables.empty()) return std::nullopt;
  estimate.mean = MeanOverStrata(tables, SumAll);
  if (!can_be_drawn) return estimate;
  Rng rng(seed);
  std::vector<double> means(kResamples);
  for (double& mean : means) {
    mean = MeanOverStrata(tables, [&rng](const DrawTable& table) { return SumDrawn(table, rng); });
  }
  estimate.interval = Interval{SelectQuantile(means, 0.025), SelectQuantile(means, 0.975)};
  return estimate;
}

std::optional<Estimate> EstimateMean(const Sample& sample, std::uint64_t seed) {
  const Stratum stratum = {sample};
  return EstimateMean(std::span(&stratum, 1), seed);
}

WilcoxonResult WilcoxonSignedRank(std::span<const double> differences) {
  std::vector<double> kept;
  std::copy_if(differences.begin(), differences.end(), std::back_inserter(kept), [](double d) { return d != 0; });
  WilcoxonResult result{.n = kept.size()};
  if (kept.empty()) return result;
  std::vector<double> sizes(kept.size());
  std::transform(kept.begin(), kept.end(), sizes.begin(), [](double d) { return std::abs(d); });
  const std::vector<double> ranks = Ranks(sizes);
  for (std::size_t i = 0; i < kept.size(); ++i) {
    if (kept[i] > 0) result.rank_sum += ranks[i];
  }
  const double ties = SumOfTies(ranks);
  const auto n = static_cast<double>(kept.size());
  result.is_exact = kept.size() <= kExactUpTo && ties == 0;
  if (result.is_exact) {
    // The distribution is symmetric: twice the smaller tail.
    const double smaller = std::min(result.rank_sum, n * (n + 1) / 2 - result.rank_sum);
    result.p_value = std::min(1.0, 2 * ExactLowerTail(kept.size(), static_cast<std::size_t>(smaller)));
  } else {
    result.p_value = NormalPValue(n, result.rank_sum, ties);
  }
  return result;
}

std::vector<double> HolmAdjusted(std::span<const double> p_values) {
  std::vector<std::size_t> order(p_values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return p_values[a] < p_values[b]; });
  std::vector<double> adjusted(p_values.size());
  double largest = 0;
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto remaining = static_cast<double>(order.size() - i);
    largest = std::max(largest, std::min(1.0, remaining * p_values[order[i]]));
    adjusted[order[i]] = largest;
  }
  return adjusted;
}

}  // namespace emplace::experiments
