#ifndef EMPLACE_EXPERIMENTS_REPORT_LEARNING_CURVES_H_
#define EMPLACE_EXPERIMENTS_REPORT_LEARNING_CURVES_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "experiments/report/grid.h"
#include "experiments/run/run_reader.h"

namespace emplace::experiments {

struct CurvePoint {
  double x = 0;
  double centre = 0;  // a mean or a median
  double low = 0;     // 95 % band; equal to the centre for one graph and one seed
  double high = 0;
};

// The curve of one agent: the mean over graphs, each the mean over its seeds and columns. The band is a percentile
// bootstrap over graphs (statistics.h); over seeds and columns if there is one graph.
struct Curve {
  std::string label;
  std::vector<CurvePoint> points;  // ordered by x
};

// Mean best-so-far improvement (%, trial_record.h) by evaluations, by label. x runs from 1 in steps of equal
// ratio, from the first evaluation that found something. After its end a trial keeps its best value. An agent with one
// evaluation is drawn up to the longest search. `columns`: the columns of the grid to include.
std::vector<Curve> ImprovementCurves(const std::vector<TrialRecord>& trials, const ReportGrid& grid,
                                     const std::vector<std::size_t>& columns);

// Mean step time of the placements sampled from a policy, relative to the single device's, by evaluations. Only for
// agents that sample whole placements: Post's figure 2.
std::vector<Curve> SampleCurves(const std::vector<TrialRecord>& trials, const ReportGrid& grid,
                                const std::vector<std::size_t>& columns);

// Mean of an optional value of an episode, such as the policy's entropy, by episode, for the agents that record it.
std::vector<Curve> EpisodeCurves(const std::vector<TrialRecord>& trials, const ReportGrid& grid,
                                 const std::vector<std::size_t>& columns, std::optional<double> EpisodeTrace::*value);

// One graph in one column of the grid: agents are compared on it, and no other graph is averaged with it.
struct Question {
  std::string title = {};                // "cifar10, 3 GPUs: cifar10 7"
  std::vector<std::size_t> trials = {};  // indices of the trials that search it, finished or not
  std::size_t graph = 0;                 // its index among the graphs that each of these trains together
};

// The questions of the trials, by column and graph. `trials` are those of the grid, also ones without results.
std::vector<Question> FindQuestions(const std::vector<TrialRecord>& trials, const ReportGrid& grid);

// Best-so-far step time (µs) by evaluations, by label: the median over searches and its band. x is as in
// ImprovementCurves, but a search that is not finished counts only up to its last evaluation.
std::vector<Curve> StepTimeCurves(const std::vector<TrialRecord>& trials, const Question& question);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_LEARNING_CURVES_H_
