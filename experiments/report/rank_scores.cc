#include "experiments/report/rank_scores.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <tuple>

namespace emplace::experiments {
namespace {

struct Contender {
  std::size_t trial = 0;
  double micros = 0;
};

}  // namespace

std::vector<std::vector<GraphScore>> RankScores(const std::vector<TrialRecord>& trials, const ReportGrid& grid) {
  std::map<std::tuple<std::size_t, std::string, std::string>, std::vector<Contender>> problems;
  for (std::size_t t = 0; t < trials.size(); ++t) {
    for (const GraphRecord& graph : trials[t].graphs) {
      problems[{grid.column_of[t], graph.graph, trials[t].seed}].push_back(
          {t, graph.best_micros.value_or(std::numeric_limits<double>::infinity())});
    }
  }
  std::vector<std::vector<GraphScore>> scores(trials.size());
  for (const auto& problem : problems) {
    const std::vector<Contender>& contenders = problem.second;
    if (contenders.size() < 2) continue;
    for (const Contender& contender : contenders) {
      const auto count = [&](auto compare) {
        return static_cast<double>(std::count_if(contenders.begin(), contenders.end(), [&](const Contender& other) {
          return compare(other.micros, contender.micros);
        }));
      };
      const double ahead = count([](double a, double b) { return a < b; });
      const double equal = count([](double a, double b) { return a == b; });  // includes itself
      scores[contender.trial].push_back({std::get<1>(problem.first), {ahead + (equal + 1) / 2, 1}});
    }
  }
  return scores;
}

}  // namespace emplace::experiments
