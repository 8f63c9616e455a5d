#include "experiments/report/learning_curves.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <span>

#include "experiments/report/statistics.h"
#include "sim/base/rng.h"
#include "sim/base/statistics.h"

namespace emplace::experiments {
namespace {

constexpr std::size_t kSteps = 60;

// One search on one graph.
struct Series {
  std::string graph;
  const GraphRecord* record = nullptr;
};
using SeriesByLabel = std::map<std::string, std::vector<Series>>;

SeriesByLabel CollectSeries(const std::vector<TrialRecord>& trials, const ReportGrid& grid,
                            const std::vector<std::size_t>& columns) {
  SeriesByLabel series;
  for (std::size_t t = 0; t < trials.size(); ++t) {
    if (std::find(columns.begin(), columns.end(), grid.column_of[t]) == columns.end()) continue;
    for (const GraphRecord& graph : trials[t].graphs) series[trials[t].label].push_back({graph.graph, &graph});
  }
  return series;
}

// The mean of any number of values, possibly none.
struct Mean {
  double sum = 0;
  double count = 0;
  void Add(double value) {
    sum += value;
    ++count;
  }
  double value() const { return sum / count; }
};

// [unit][point]: a unit is a graph, or a search if there is one graph.
using Units = std::vector<std::vector<Mean>>;

// `value_at(record, x)` returns the optional value of a search at x.
template <typename ValueAt>
Units MakeUnits(const std::vector<Series>& series, const std::vector<double>& xs, const ValueAt& value_at) {
  std::set<std::string> graphs;
  for (const Series& one : series) graphs.insert(one.graph);
  std::map<std::string, std::size_t> unit_of;
  Units units;
  for (std::size_t s = 0; s < series.size(); ++s) {
    const std::string key = graphs.size() > 1 ? series[s].graph : std::to_string(s);
    const auto [at, is_new] = unit_of.emplace(key, units.size());
    if (is_new) units.emplace_back(xs.size());
    for (std::size_t x = 0; x < xs.size(); ++x) {
      if (const auto value = value_at(*series[s].record, xs[x])) units[at->second][x].Add(*value);
    }
  }
  return units;
}

// What the units have at a point; both are 0 for a unit without a value.
struct PointValues {
  std::vector<double> of_unit;
  std::vector<double> counts;  // 1 or 0
};

PointValues ValuesAt(const Units& units, std::size_t x) {
  PointValues values;
  for (const std::vector<Mean>& unit : units) {
    const bool has_value = unit[x].count > 0;
    values.of_unit.push_back(has_value ? unit[x].value() : 0);
    values.counts.push_back(has_value ? 1 : 0);
  }
  return values;
}

Mean MeanOf(const PointValues& values, std::span<const std::uint32_t> units) {
  Mean mean;
  for (const std::uint32_t unit : units) {
    mean.sum += values.of_unit[unit];
    mean.count += values.counts[unit];
  }
  return mean;
}

// Units drawn with replacement, as many as there are, for each resample; none if there is only one unit.
std::vector<std::vector<std::uint32_t>> DrawUnits(std::size_t num_units) {
  Rng rng(kReportSeed);
  std::vector<std::vector<std::uint32_t>> draws(num_units > 1 ? kResamples : 0);
  for (std::vector<std::uint32_t>& draw : draws) {
    draw.resize(num_units);
    for (std::uint32_t& unit : draw) unit = static_cast<std::uint32_t>(rng.Below(num_units));
  }
  return draws;
}

Curve MakeCurve(const std::string& label, const Units& units, const std::vector<double>& xs) {
  std::vector<std::uint32_t> all(units.size());
  std::iota(all.begin(), all.end(), 0U);
  const std::vector<std::vector<std::uint32_t>> draws = DrawUnits(units.size());
  Curve curve{.label = label, .points = {}};
  std::vector<double> means;
  for (std::size_t x = 0; x < xs.size(); ++x) {
    const PointValues values = ValuesAt(units, x);
    const Mean mean = MeanOf(values, all);
    if (mean.count == 0) continue;
    CurvePoint point{.x = xs[x], .mean = mean.value(), .low = mean.value(), .high = mean.value()};
    means.clear();
    for (const std::vector<std::uint32_t>& draw : draws) {
      if (const Mean drawn = MeanOf(values, draw); drawn.count > 0) means.push_back(drawn.value());
    }
    if (!means.empty()) {
      point.low = SelectQuantile(means, 0.025);
      point.high = SelectQuantile(means, 0.975);
    }
    curve.points.push_back(point);
  }
  return curve;
}

// From 1 to `last` in steps of equal ratio, rounded to integers, without duplicates.
std::vector<double> GeometricSteps(double last) {
  std::vector<double> steps;
  for (std::size_t i = 0; i <= kSteps; ++i) {
    const double step = std::round(std::pow(last, static_cast<double>(i) / kSteps));
    if (steps.empty() || step > steps.back()) steps.push_back(step);
  }
  return steps;
}

std::optional<double> BestAfter(const GraphRecord& record, double evaluations) {
  std::optional<double> best;
  for (const auto& [after, micros] : record.trace) {
    if (after > evaluations) break;
    best = best ? std::min(*best, micros) : micros;
  }
  return best;
}

double LongestSearch(const std::vector<Series>& series) {
  double longest = 1;
  for (const Series& one : series) longest = std::max(longest, one.record->evaluations);
  return longest;
}

// The record of an episode by one of its ascending numbers, or the next one, if the episode was left out. Null: the
// search has no such episode.
const EpisodeTrace* RecordAt(const GraphRecord& record, double EpisodeTrace::*number, double at) {
  const auto found = std::lower_bound(record.episodes.begin(), record.episodes.end(), at,
                                      [number](const EpisodeTrace& one, double least) { return one.*number < least; });
  if (found == record.episodes.end() || ((*found).*number != at && !found->left_out)) return nullptr;
  return &*found;
}

std::optional<double> SampleAt(const GraphRecord& record, double evaluations) {
  if (!record.single_device_micros || *record.single_device_micros <= 0) return std::nullopt;
  const EpisodeTrace* const episode = RecordAt(record, &EpisodeTrace::evaluations, evaluations);
  if (episode == nullptr || !episode->mean_micros) return std::nullopt;
  return *episode->mean_micros / *record.single_device_micros;
}

// The distinct values of `number` over the episodes that have `has`, ascending.
std::vector<double> NumbersOf(const std::vector<Series>& series, double EpisodeTrace::*number,
                              std::optional<double> EpisodeTrace::*has) {
  std::set<double> numbers;
  for (const Series& one : series) {
    for (const EpisodeTrace& episode : one.record->episodes) {
      if (episode.*has) numbers.insert(episode.*number);
    }
  }
  return {numbers.begin(), numbers.end()};
}

}  // namespace

std::vector<Curve> ImprovementCurves(const std::vector<TrialRecord>& trials, const ReportGrid& grid,
                                     const std::vector<std::size_t>& columns) {
  const auto improvement = [](const GraphRecord& record, double evaluations) {
    return ImprovementPercent(record.single_device_micros, BestAfter(record, evaluations));
  };
  const SeriesByLabel by_label = CollectSeries(trials, grid, columns);
  double longest = 1;
  for (const auto& [label, series] : by_label) longest = std::max(longest, LongestSearch(series));
  std::vector<Curve> curves;
  for (const auto& [label, series] : by_label) {
    const double own = LongestSearch(series);
    const std::vector<double> xs = GeometricSteps(own > 1 ? own : longest);
    Curve curve = MakeCurve(label, MakeUnits(series, xs, improvement), xs);
    if (!curve.points.empty()) curves.push_back(std::move(curve));
  }
  return curves;
}

std::vector<Curve> SampleCurves(const std::vector<TrialRecord>& trials, const ReportGrid& grid,
                                const std::vector<std::size_t>& columns) {
  std::vector<Curve> curves;
  for (const auto& [label, series] : CollectSeries(trials, grid, columns)) {
    const std::vector<double> xs = NumbersOf(series, &EpisodeTrace::evaluations, &EpisodeTrace::mean_micros);
    Curve curve = MakeCurve(label, MakeUnits(series, xs, SampleAt), xs);
    if (!curve.points.empty()) curves.push_back(std::move(curve));
  }
  return curves;
}

std::vector<Curve> EpisodeCurves(const std::vector<TrialRecord>& trials, const ReportGrid& grid,
                                 const std::vector<std::size_t>& columns, std::optional<double> EpisodeTrace::*value) {
  const auto value_at = [value](const GraphRecord& record, double number) -> std::optional<double> {
    const EpisodeTrace* const episode = RecordAt(record, &EpisodeTrace::episode, number);
    return episode == nullptr ? std::nullopt : episode->*value;
  };
  std::vector<Curve> curves;
  for (const auto& [label, series] : CollectSeries(trials, grid, columns)) {
    const std::vector<double> xs = NumbersOf(series, &EpisodeTrace::episode, value);
    if (!xs.empty()) curves.push_back(MakeCurve(label, MakeUnits(series, xs, value_at), xs));
  }
  return curves;
}

}  // namespace emplace::experiments
