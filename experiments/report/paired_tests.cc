#include "experiments/report/paired_tests.h"
#include "sim/base/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <utility>

namespace emplace::experiments {
namespace {

struct PairKey {
  std::string graph;
  std::size_t column = 0;
  std::string seed;
  auto operator<=>(const PairKey&) const = default;
};
using ScoresByPair = std::map<PairKey, double>;

double PairedScore(double score, PairedQuantity quantity) {
  return quantity == PairedQuantity::kLogStepTime ? -100 * std::log(score) : score;
}

// The trials' scores for which `counts(label, problem)` is true.
template <typename Counts>
std::map<std::string, ScoresByPair> ScoresByLabel(const std::vector<TrialRecord>& trials, const ReportGrid& grid,
                                                  PairedQuantity quantity, const Counts& counts) {
  std::map<std::string, ScoresByPair> scores;
  const MetricEntry& metric = MetricOf(quantity);
  for (std::size_t t = 0; t < trials.size(); ++t) {
    const std::size_t column = grid.column_of[t];
    for (const GraphScore& score : metric.scores(trials[t])) {
      const double value = score.score.value;
      if (quantity == PairedQuantity::kLogStepTime && value <= 0) continue;
      if (!counts(trials[t].label, {column, score.graph})) continue;
      scores[trials[t].label][{score.graph, column, trials[t].seed}] = PairedScore(value, quantity);
    }
  }
  return scores;
}

std::optional<PairedTest> Compare(const std::string& a, const ScoresByPair& of_a, const std::string& b,
                                  const ScoresByPair& of_b) {
  Sample differences;
  std::map<std::pair<std::string, std::size_t>, std::vector<double>> by_problem;
  double sum = 0;
  for (const auto& [key, value] : of_a) {
    const auto found = of_b.find(key);
    if (found == of_b.end()) continue;
    differences[key.graph].push_back({value - found->second, 1});
    by_problem[{key.graph, key.column}].push_back(value - found->second);
    sum += value - found->second;
  }
  if (differences.empty()) return std::nullopt;
  const bool a_is_better = sum >= 0;
  std::vector<double> pairs;
  std::vector<double> graphs;
  for (auto& [graph, list] : differences) {
    double total = 0;
    for (Observed& observed : list) {
      if (!a_is_better) observed.value = -observed.value;
      pairs.push_back(observed.value);
      total += observed.value;
    }
    graphs.push_back(total / static_cast<double>(list.size()));
  }
  std::vector<double> problems;
  for (const auto& [problem, list] : by_problem) {
    const double mean = std::accumulate(list.begin(), list.end(), 0.0) / static_cast<double>(list.size());
    problems.push_back(a_is_better ? mean : -mean);
  }
  return PairedTest{.better = a_is_better ? a : b,
                    .worse = a_is_better ? b : a,
                    .pairs = pairs.size(),
                    .graphs = graphs.size(),
                    .difference = *EstimateMean(differences),
                    .over_pairs = WilcoxonSignedRank(pairs),
                    .over_graphs = WilcoxonSignedRank(graphs),
                    .problems = problems.size(),
                    .over_problems = WilcoxonSignedRank(problems)};
}

void AdjustAndSort(std::vector<PairedTest>* tests) {
  std::vector<double> pairs;
  std::vector<double> graphs;
  for (const PairedTest& test : *tests) {
    pairs.push_back(test.over_pairs.p_value);
    graphs.push_back(test.over_graphs.p_value);
  }
  pairs = HolmAdjusted(pairs);
  graphs = HolmAdjusted(graphs);
  for (std::size_t i = 0; i < tests->size(); ++i) {
    (*tests)[i].adjusted_pairs = pairs[i];
    (*tests)[i].adjusted_graphs = graphs[i];
  }
  std::sort(tests->begin(), tests->end(), [](const PairedTest& a, const PairedTest& b) {
    return std::tie(a.over_pairs.p_value, a.better, a.worse) < std::tie(b.over_pairs.p_value, b.better, b.worse);
  });
}

}  // namespace

const MetricEntry& MetricOf(PairedQuantity quantity) {
  switch (quantity) {
    case PairedQuantity::kImprovement:
      return FindMetric("improvement", "");
    case PairedQuantity::kTransferImprovement:
      return FindMetric("transfer_improvement", "");
    case PairedQuantity::kLogStepTime:
      break;
  }
  return FindMetric("step_time", "");
}

PairedQuantity QuantityToPair(const std::vector<TrialRecord>& trials) {
  for (const TrialRecord& trial : trials) {
    for (const GraphRecord& graph : trial.graphs) {
      if (graph.best_micros && !ImprovementPercent(graph.single_device_micros, graph.best_micros)) {
        return PairedQuantity::kLogStepTime;
      }
    }
  }
  return PairedQuantity::kImprovement;
}

std::vector<PairedTest> MakePairedTests(const std::vector<TrialRecord>& trials, const ReportGrid& grid,
                                        const std::vector<std::size_t>& columns, PairedQuantity quantity) {
  const auto counts = [&columns](const std::string&, const ProblemSet::value_type& problem) {
    return std::find(columns.begin(), columns.end(), problem.first) != columns.end();
  };
  const auto scores = ScoresByLabel(trials, grid, quantity, counts);
  std::vector<PairedTest> tests;
  for (auto a = scores.begin(); a != scores.end(); ++a) {
    for (auto b = std::next(a); b != scores.end(); ++b) {
      if (auto test = Compare(a->first, a->second, b->first, b->second)) tests.push_back(std::move(*test));
    }
  }
  AdjustAndSort(&tests);
  return tests;
}

std::vector<PairedTest> MakeTestsAgainst(const std::string& label, const std::vector<TrialRecord>& trials,
                                         const ReportGrid& grid, const ProblemsByLabel& problems,
                                         PairedQuantity quantity) {
  const auto counts = [&problems](const std::string& other, const ProblemSet::value_type& problem) {
    const auto found = problems.find(other);
    return found != problems.end() && found->second.count(problem) > 0;
  };
  auto scores = ScoresByLabel(trials, grid, quantity, counts);
  const ScoresByPair own = std::exchange(scores[label], {});
  std::vector<PairedTest> tests;
  for (const auto& [other, of_other] : scores) {
    if (auto test = Compare(label, own, other, of_other)) tests.push_back(std::move(*test));
  }
  AdjustAndSort(&tests);
  return tests;
}

std::vector<std::vector<GraphScore>> RankScores(const std::vector<TrialRecord>& trials, const ReportGrid& grid) {
  struct Contenders {
    std::vector<std::size_t> trials;
    std::vector<double> micros;
  };
  std::map<std::tuple<std::size_t, std::string, std::string>, Contenders> problems;
  // Where a trial is missing, the others would be ranked among fewer than elsewhere.
  std::set<std::tuple<std::size_t, std::string, std::string>> incomplete;
  for (std::size_t t = 0; t < trials.size(); ++t) {
    if (trials[t].graphs.empty()) incomplete.emplace(grid.column_of[t], GraphKey(trials[t]), trials[t].seed);
  }
  for (std::size_t t = 0; t < trials.size(); ++t) {
    if (incomplete.contains({grid.column_of[t], GraphKey(trials[t]), trials[t].seed})) continue;
    for (const GraphRecord& graph : trials[t].graphs) {
      Contenders& contenders = problems[{grid.column_of[t], graph.graph, trials[t].seed}];
      contenders.trials.push_back(t);
      contenders.micros.push_back(graph.best_micros.value_or(std::numeric_limits<double>::infinity()));
    }
  }
  std::vector<std::vector<GraphScore>> scores(trials.size());
  for (const auto& [problem, contenders] : problems) {
    if (contenders.trials.size() < 2) continue;
    const std::vector<double> ranks = Ranks(contenders.micros);
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      scores[contenders.trials[i]].push_back({std::get<1>(problem), {ranks[i], 1}});
    }
  }
  return scores;
}

}  // namespace emplace::experiments
