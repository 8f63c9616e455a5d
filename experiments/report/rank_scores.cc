#include "experiments/report/rank_scores.h"

#include <limits>
#include <map>
#include <string>
#include <tuple>

#include "sim/base/statistics.h"

namespace emplace::experiments {

std::vector<std::vector<GraphScore>> RankScores(const std::vector<TrialRecord>& trials, const ReportGrid& grid) {
  struct Contenders {
    std::vector<std::size_t> trials;
    std::vector<double> micros;
  };
  std::map<std::tuple<std::size_t, std::string, std::string>, Contenders> problems;
  for (std::size_t t = 0; t < trials.size(); ++t) {
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
