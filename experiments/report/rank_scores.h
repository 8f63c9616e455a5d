#ifndef EMPLACE_EXPERIMENTS_REPORT_RANK_SCORES_H_
#define EMPLACE_EXPERIMENTS_REPORT_RANK_SCORES_H_

#include <vector>

#include "experiments/report/report_grid.h"
#include "experiments/report/report_metrics.h"
#include "experiments/run/run_reader.h"

namespace emplace::experiments {

// For each trial and each of its graphs, its rank among the agents with the same graph, column of the grid and seed.
// Rank 1 is the shortest step time; ties share the mean of their ranks; agents that found nothing that fits are last.
// Problems tried by only one agent are left out.
std::vector<std::vector<GraphScore>> RankScores(const std::vector<TrialRecord>& trials, const ReportGrid& grid);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_RANK_SCORES_H_
