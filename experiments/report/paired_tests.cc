#include "experiments/report/paired_tests.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "experiments/report/report_metrics.h"

namespace emplace {
namespace {

struct PairKey {
  std::string graph;
  std::size_t column = 0;
  std::string seed;
  auto operator<=>(const PairKey&) const = default;
};
using ScoresByPair = std::map<PairKey, double>;

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

std::map<std::string, ScoresByPair> ScoresByLabel(const std::vector<TrialRecord>& trials, const ReportGrid& grid,
                                                  const std::vector<std::size_t>& columns, PairedQuantity quantity) {
  std::map<std::string, ScoresByPair> scores;
  const MetricEntry& metric = MetricOf(quantity);
  for (std::size_t t = 0; t < trials.size(); ++t) {
    const std::size_t column = grid.column_of[t];
    if (std::find(columns.begin(), columns.end(), column) == columns.end()) continue;
    for (const GraphScore& score : metric.scores(trials[t])) {
      double value = score.score.value;
      if (quantity == PairedQuantity::kLogStepTime) {
        if (value <= 0) continue;
        value = -100 * std::log(value);
      }
      scores[trials[t].label][{score.graph, column, trials[t].seed}] = value;
    }
  }
  return scores;
}

std::optional<PairedTest> Compare(const std::string& a, const ScoresByPair& of_a, const std::string& b,
                                  const ScoresByPair& of_b) {
  Sample differences;
  double sum = 0;
  for (const auto& [key, value] : of_a) {
    const auto found = of_b.find(key);
    if (found == of_b.end()) continue;
    differences[key.graph].push_back({value - found->second, 1});
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
  return PairedTest{.better = a_is_better ? a : b,
                    .worse = a_is_better ? b : a,
                    .pairs = pairs.size(),
                    .graphs = graphs.size(),
                    .difference = *EstimateMean(differences),
                    .over_pairs = WilcoxonSignedRank(pairs),
                    .over_graphs = WilcoxonSignedRank(graphs)};
}

void Adjust(std::vector<PairedTest>* tests) {
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
}

}  // namespace

PairedQuantity QuantityToPair(const std::vector<TrialRecord>& trials) {
  for (const TrialRecord& trial : trials) {
    for (const GraphRecord& graph : trial.graphs) {
      if (graph.best_micros && !graph.improvement) return PairedQuantity::kLogStepTime;
    }
  }
  return PairedQuantity::kImprovement;
}

bool StartsDiffer(const std::vector<TrialRecord>& trials, const ReportGrid& grid) {
  std::map<std::pair<std::string, std::size_t>, double> starts;
  for (std::size_t t = 0; t < trials.size(); ++t) {
    for (const GraphRecord& graph : trials[t].graphs) {
      if (!graph.start_micros) continue;
      const auto [at, is_new] = starts.emplace(std::pair(graph.graph, grid.column_of[t]), *graph.start_micros);
      if (!is_new && at->second != *graph.start_micros) return true;
    }
  }
  return false;
}

std::vector<PairedTest> MakePairedTests(const std::vector<TrialRecord>& trials, const ReportGrid& grid,
                                        const std::vector<std::size_t>& columns, PairedQuantity quantity) {
  const auto scores = ScoresByLabel(trials, grid, columns, quantity);
  std::vector<PairedTest> tests;
  for (auto a = scores.begin(); a != scores.end(); ++a) {
    for (auto b = std::next(a); b != scores.end(); ++b) {
      if (auto test = Compare(a->first, a->second, b->first, b->second)) tests.push_back(std::move(*test));
    }
  }
  Adjust(&tests);
  std::sort(tests.begin(), tests.end(), [](const PairedTest& a, const PairedTest& b) {
    return std::tie(a.over_pairs.p_value, a.better, a.worse) < std::tie(b.over_pairs.p_value, b.better, b.worse);
  });
  return tests;
}

}  // namespace emplace
