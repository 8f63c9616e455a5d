#include "experiments/report/learning_curves.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <tuple>

#include "experiments/report/published.h"
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

// The values of the units at a point; both are 0 for a unit without a value.
struct PointValues {
  std::vector<double> of_unit;
  std::vector<double> counts;  // 1 or 0

  bool operator==(const PointValues&) const = default;
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

// The mean of the units that have a value; nullopt if none has.
std::optional<double> MeanOf(const PointValues& values, std::span<const std::uint32_t> units) {
  Mean mean;
  for (const std::uint32_t unit : units) {
    mean.sum += values.of_unit[unit];
    mean.count += values.counts[unit];
  }
  return mean.count > 0 ? std::optional(mean.value()) : std::nullopt;
}

// The same for the median.
std::optional<double> MedianOf(const PointValues& values, std::span<const std::uint32_t> units) {
  std::vector<double> known;
  known.reserve(units.size());
  for (const std::uint32_t unit : units) {
    if (values.counts[unit] > 0) known.push_back(values.of_unit[unit]);
  }
  return known.empty() ? std::nullopt : std::optional(SelectQuantile(known, 0.5));
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

using Centre = std::optional<double>(const PointValues& values, std::span<const std::uint32_t> units);

Curve MakeCurve(const std::string& label, const Units& units, const std::vector<double>& xs, Centre& centre_of) {
  std::vector<std::uint32_t> all(units.size());
  std::iota(all.begin(), all.end(), 0U);
  const std::vector<std::vector<std::uint32_t>> draws = DrawUnits(units.size());
  Curve curve{.label = label, .points = {}};
  std::vector<double> drawn;
  PointValues last;
  for (std::size_t x = 0; x < xs.size(); ++x) {
    const PointValues values = ValuesAt(units, x);
    const std::optional<double> centre = centre_of(values, all);
    if (!centre) continue;
    CurvePoint point{.x = xs[x], .centre = *centre, .low = *centre, .high = *centre};
    if (values == last) {  // no search has improved since
      point.low = curve.points.back().low;
      point.high = curve.points.back().high;
    } else {
      drawn.clear();
      for (const std::vector<std::uint32_t>& draw : draws) {
        if (const auto value = centre_of(values, draw)) drawn.push_back(*value);
      }
      if (!drawn.empty()) {
        point.low = SelectQuantile(drawn, 0.025);
        point.high = SelectQuantile(drawn, 0.975);
      }
    }
    curve.points.push_back(point);
    last = values;
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

// `value_at` as in MakeUnits. An agent with one evaluation is drawn up to the longest search.
template <typename ValueAt>
std::vector<Curve> BestSoFarCurves(const SeriesByLabel& by_label, const ValueAt& value_at, Centre& centre_of) {
  double longest = 1;
  for (const auto& [label, series] : by_label) longest = std::max(longest, LongestSearch(series));
  std::vector<Curve> curves;
  for (const auto& [label, series] : by_label) {
    const double own = LongestSearch(series);
    const std::vector<double> xs = GeometricSteps(own > 1 ? own : longest);
    Curve curve = MakeCurve(label, MakeUnits(series, xs, value_at), xs, centre_of);
    if (!curve.points.empty()) curves.push_back(std::move(curve));
  }
  return curves;
}

// How many graphs a trial searches.
std::size_t NumGraphs(const TrialRecord& trial) {
  const JsonValue* const together = FindPath(trial.spec, "together");
  const auto* const list = together == nullptr ? nullptr : together->As<JsonList>();
  return list == nullptr ? 1 : list->size();
}

// The graph's position in its dataset; 0 if it is of none.
std::int64_t IndexInDataset(const TrialRecord& trial) {
  const JsonValue* const index = FindPath(trial.spec, "graph.index");
  const auto* const number = index == nullptr ? nullptr : index->As<std::int64_t>();
  return number == nullptr ? 0 : *number;
}

// The name of a graph that a trial searches, or what its spec says where no result names it: "cifar10 7".
std::string GraphName(const TrialRecord& trial, std::size_t graph) {
  if (graph < trial.graphs.size() && !trial.graphs[graph].graph.empty()) return trial.graphs[graph].graph;
  const std::string place = NumGraphs(trial) > 1 ? fmt::format("together[{}].", graph) : "graph.";
  std::string name;
  for (const char* const key : {"dataset", "index", "instance", "file", "model"}) {
    const std::string text = MatchText(trial, place + key);
    if (!text.empty()) name += (name.empty() ? "" : " ") + std::filesystem::path(text).filename().string();
  }
  return name;
}

// The column's title, with the graph's name where the column leaves open which graph it is.
std::string QuestionTitle(const std::vector<TrialRecord>& trials, const ReportGrid& grid, const Question& question,
                          std::size_t column, bool has_several) {
  const auto has_result = [&](std::size_t t) { return !trials[t].graphs.empty() && trials[t].graphs[0].finished; };
  const auto named = std::find_if(question.trials.begin(), question.trials.end(), has_result);
  const std::size_t by = named == question.trials.end() ? question.trials.front() : *named;
  std::string graph = GraphName(trials[by], question.graph);
  if (grid.axes.empty()) return graph;
  const bool is_named = grid.axes[0] == "graph.dataset" && !has_several;
  const std::string title = ColumnTitle(grid, grid.columns[column]);
  return is_named ? title : title + ": " + graph;
}

}  // namespace

std::vector<Curve> ImprovementCurves(const std::vector<TrialRecord>& trials, const ReportGrid& grid,
                                     const std::vector<std::size_t>& columns) {
  const auto improvement = [](const GraphRecord& record, double evaluations) {
    return ImprovementPercent(record.single_device_micros, BestAfter(record, evaluations));
  };
  return BestSoFarCurves(CollectSeries(trials, grid, columns), improvement, MeanOf);
}

std::vector<Question> FindQuestions(const std::vector<TrialRecord>& trials, const ReportGrid& grid) {
  // The column, the index in the dataset, all graphs of the trial, and the position among these.
  using Key = std::tuple<std::size_t, std::int64_t, std::string, std::size_t>;
  std::map<Key, Question> by_key;
  std::map<std::size_t, std::set<Key>> of_column;
  for (std::size_t t = 0; t < trials.size(); ++t) {
    for (std::size_t g = 0; g < NumGraphs(trials[t]); ++g) {
      const Key key = {grid.column_of[t], IndexInDataset(trials[t]), GraphKey(trials[t]), g};
      Question& question = by_key[key];
      question.graph = g;
      question.trials.push_back(t);
      of_column[grid.column_of[t]].insert(key);
    }
  }
  std::vector<Question> questions;
  for (auto& [key, question] : by_key) {
    const std::size_t column = std::get<0>(key);
    question.title = QuestionTitle(trials, grid, question, column, of_column[column].size() > 1);
    questions.push_back(std::move(question));
  }
  return questions;
}

std::vector<Curve> StepTimeCurves(const std::vector<TrialRecord>& trials, const Question& question) {
  SeriesByLabel by_label;
  for (const std::size_t t : question.trials) {
    if (question.graph >= trials[t].graphs.size()) continue;  // nothing is known of it yet
    by_label[trials[t].label].push_back({.graph = "", .record = &trials[t].graphs[question.graph]});
  }
  const auto step_time = [](const GraphRecord& record, double evaluations) {
    const bool is_known = record.finished || evaluations <= record.evaluations;
    return is_known ? BestAfter(record, evaluations) : std::nullopt;
  };
  return BestSoFarCurves(by_label, step_time, MedianOf);
}

std::vector<Curve> SampleCurves(const std::vector<TrialRecord>& trials, const ReportGrid& grid,
                                const std::vector<std::size_t>& columns) {
  std::vector<Curve> curves;
  for (const auto& [label, series] : CollectSeries(trials, grid, columns)) {
    const std::vector<double> xs = NumbersOf(series, &EpisodeTrace::evaluations, &EpisodeTrace::mean_micros);
    Curve curve = MakeCurve(label, MakeUnits(series, xs, SampleAt), xs, MeanOf);
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
    if (!xs.empty()) curves.push_back(MakeCurve(label, MakeUnits(series, xs, value_at), xs, MeanOf));
  }
  return curves;
}

}  // namespace emplace::experiments
