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

constexpr std::size_t kExactUpTo = 100;

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

// The 95 % interval of the means that `draw_mean` makes with a random generator.
template <typename DrawMean>
Interval PercentileInterval(std::size_t resamples, std::uint64_t seed, const DrawMean& draw_mean) {
  Rng rng(seed);
  std::vector<double> means(resamples);
  for (double& mean : means) mean = draw_mean(rng);
  return {SelectQuantile(means, 0.025), SelectQuantile(means, 0.975)};
}

double MeanOf(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// The mean of as many seeds of each row as it has, drawn with replacement.
double DrawnGraphMean(const std::vector<std::vector<double>>& rows, Rng& rng) {
  double sum = 0;
  for (const std::vector<double>& row : rows) {
    double sum_of_row = 0;
    for (std::size_t s = 0; s < row.size(); ++s) sum_of_row += row.size() == 1 ? row[0] : row[rng.Below(row.size())];
    sum += sum_of_row / static_cast<double>(row.size());
  }
  return sum / static_cast<double>(rows.size());
}

// The sum of t^3 - t over groups of t equal ranks.
double SumOfTies(const std::vector<double>& ranks) {
  std::map<double, double> sizes;
  for (const double rank : ranks) ++sizes[rank];
  return std::accumulate(sizes.begin(), sizes.end(), 0.0, [](double sum, const auto& group) {
    return sum + group.second * group.second * group.second - group.second;
  });
}

// P(rank sum <= at_most) if each of the ranks is positive with probability 1/2. Sums are counted in halves, since ties
// share the mean of their ranks.
double ExactLowerTail(const std::vector<double>& ranks, double at_most) {
  const auto halves = [](double rank) { return static_cast<std::size_t>(2 * rank); };
  std::vector<double> probability(ranks.size() * (ranks.size() + 1) + 1);
  probability[0] = 1;
  for (const double rank : ranks) {
    for (std::size_t sum = probability.size(); sum-- > 0;) {
      probability[sum] = (probability[sum] + (sum >= halves(rank) ? probability[sum - halves(rank)] : 0)) / 2;
    }
  }
  probability.resize(halves(at_most) + 1);
  return std::accumulate(probability.begin(), probability.end(), 0.0);
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
  estimate.interval = PercentileInterval(kResamples, seed, [&tables](Rng& rng) {
    return MeanOverStrata(tables, [&rng](const DrawTable& table) { return SumDrawn(table, rng); });
  });
  return estimate;
}

std::optional<Estimate> EstimateMean(const Sample& sample, std::uint64_t seed) {
  const Stratum stratum = {sample};
  return EstimateMean(std::span(&stratum, 1), seed);
}

std::vector<double> MeansOfGraphs(const NestedDifferences& graphs) {
  std::vector<double> means;
  for (const auto& rows : graphs) {
    std::vector<double> of_rows;
    std::transform(rows.begin(), rows.end(), std::back_inserter(of_rows),
                   [](const std::vector<double>& row) { return MeanOf(row); });
    means.push_back(MeanOf(of_rows));
  }
  return means;
}

Estimate EstimateNestedMean(const NestedDifferences& graphs, std::uint64_t seed) {
  Estimate estimate{.mean = MeanOf(MeansOfGraphs(graphs)), .graphs = graphs.size()};
  bool can_be_drawn = graphs.size() > 1;
  for (const auto& rows : graphs) {
    for (const std::vector<double>& row : rows) {
      estimate.observations += row.size();
      can_be_drawn = can_be_drawn || row.size() > 1;
    }
  }
  if (!can_be_drawn) return estimate;
  estimate.interval = PercentileInterval(kNestedResamples, seed, [&graphs](Rng& rng) {
    double sum = 0;
    for (std::size_t i = 0; i < graphs.size(); ++i) sum += DrawnGraphMean(graphs[rng.Below(graphs.size())], rng);
    return sum / static_cast<double>(graphs.size());
  });
  return estimate;
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
  const auto n = static_cast<double>(kept.size());
  result.is_exact = kept.size() <= kExactUpTo;
  if (result.is_exact) {
    // The distribution is symmetric: twice the smaller tail.
    const double smaller = std::min(result.rank_sum, n * (n + 1) / 2 - result.rank_sum);
    result.p_value = std::min(1.0, 2 * ExactLowerTail(ranks, smaller));
  } else {
    result.p_value = NormalPValue(n, result.rank_sum, SumOfTies(ranks));
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
