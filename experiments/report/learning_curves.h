#ifndef EMPLACE_EXPERIMENTS_REPORT_LEARNING_CURVES_H_
#define EMPLACE_EXPERIMENTS_REPORT_LEARNING_CURVES_H_

#include <cstddef>
#include <string>
#include <vector>

#include "experiments/report/report_grid.h"
#include "experiments/run/run_reader.h"

namespace emplace::experiments {

struct CurvePoint {
  double x = 0;
  double mean = 0;
  double low = 0;  // 95 % band; equal to the mean where there is one graph and one seed
  double high = 0;
};

// Of one agent: the mean over graphs, each the mean over its seeds and columns. The band is the percentile bootstrap's
// over graphs (statistics.h); over seeds and columns where there is one graph.
struct Curve {
  std::string label;
  std::vector<CurvePoint> points;  // by x
};

// Mean best-so-far improvement (%, report_improvement.h) after so many evaluations, by label; x runs from 1 in steps of
// equal ratio, from the first evaluation that found something. A trial that has ended keeps what it had found; an agent
// with one evaluation is drawn as far as the longest search. `columns`: those of the grid that count.
std::vector<Curve> ImprovementCurves(const std::vector<TrialRecord>& trials, const ReportGrid& grid,
                                     const std::vector<std::size_t>& columns);

// Mean step time of the placements that a policy draws, of the single device's, after so many evaluations, of the
// agents that draw whole placements: Post's figure 2.
std::vector<Curve> SampleCurves(const std::vector<TrialRecord>& trials, const ReportGrid& grid,
                                const std::vector<std::size_t>& columns);

// Mean policy entropy (0 to 1, of the largest possible) by episode, of the agents that have any.
std::vector<Curve> EntropyCurves(const std::vector<TrialRecord>& trials, const ReportGrid& grid,
                                 const std::vector<std::size_t>& columns);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_LEARNING_CURVES_H_
