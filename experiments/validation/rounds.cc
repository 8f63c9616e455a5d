#include "experiments/validation/rounds.h"

#include <algorithm>
#include <boost/math/distributions/students_t.hpp>
#include <cmath>
#include <numeric>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/rng.h"
#include "sim/base/statistics.h"

namespace emplace::experiments {
namespace {

double MeanOfValues(std::span<const double> values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

}  // namespace

std::optional<Rounds> MeasureInRounds(std::size_t num_placements, const RoundsOptions& options,
                                      const VisitPlacement& visit, const std::function<bool()>& goes_on) {
  Rounds measured{.visits = std::vector<std::vector<Rounds::Visit>>(num_placements), .reference = {}};
  std::vector<std::size_t> order(num_placements);
  std::iota(order.begin(), order.end(), std::size_t{0});
  Rng rng(options.seed);
  for (std::size_t round = 0; round < options.rounds && (round == 0 || goes_on()); ++round) {
    rng.Shuffle(order);
    std::optional<double> before = visit(std::nullopt);
    if (!before) return std::nullopt;
    measured.reference.push_back(*before);
    for (auto next = order.begin(); next != order.end();) {
      const std::optional<double> micros = visit(*next);
      if (!micros) {
        next = order.erase(next);
        continue;
      }
      const std::optional<double> after = visit(std::nullopt);
      if (!after) return std::nullopt;
      measured.reference.push_back(*after);
      measured.visits[*next].push_back({.micros = *micros, .reference = (*before + *after) / 2});
      before = after;
      ++next;
    }
  }
  return measured;
}

MeanOfRounds MeanOver(std::vector<double> values) {
  EMPLACE_CHECK(!values.empty());
  std::sort(values.begin(), values.end());
  const std::size_t n = values.size();
  const std::size_t cut = n / 10;  // number of rounds cut off at either end
  const std::size_t kept = n - 2 * cut;
  MeanOfRounds trimmed{.mean = TrimmedMean(values)};
  if (n < 3) return trimmed;
  // Winsorised: what is cut takes the value of its neighbour.
  std::fill_n(values.begin(), cut, values[cut]);
  std::fill_n(values.rbegin(), cut, values[n - 1 - cut]);
  const double mean = MeanOfValues(values);
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  const double error = std::sqrt(squares / (static_cast<double>(kept) * (static_cast<double>(kept) - 1)));
  const boost::math::students_t distribution(static_cast<double>(kept) - 1);
  const double half = boost::math::quantile(distribution, 0.975) * error;
  trimmed.interval = MeanOfRounds::Interval{.low = trimmed.mean - half, .high = trimmed.mean + half};
  return trimmed;
}

std::vector<double> SteadyMicros(const Rounds& rounds, std::size_t placement) {
  const double reference = TrimmedMean(rounds.reference);
  std::vector<double> steady;
  for (const Rounds::Visit& visit : rounds.visits[placement])
    steady.push_back(visit.micros / visit.reference * reference);
  return steady;
}

MeanOfRounds SpeedUp(std::span<const Rounds::Visit> visits) {
  std::vector<double> ratios;
  for (const Rounds::Visit& visit : visits) ratios.push_back(visit.reference / visit.micros);
  return MeanOver(std::move(ratios));
}

}  // namespace emplace::experiments
