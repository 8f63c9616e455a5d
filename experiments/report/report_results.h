#ifndef EMPLACE_EXPERIMENTS_REPORT_REPORT_RESULTS_H_
#define EMPLACE_EXPERIMENTS_REPORT_REPORT_RESULTS_H_

#include <vector>

#include "experiments/report/published.h"
#include "experiments/report/report_document.h"
#include "experiments/report/report_grid.h"
#include "experiments/run/run_reader.h"

namespace emplace::experiments {

// The section "Results": a table for each metric to report, best first, with published figures (may be null) next to
// ours.
std::vector<ReportBlock> ResultBlocks(const ExperimentRuns& runs, const ReportGrid& grid,
                                      const PublishedFigures* published);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_REPORT_RESULTS_H_
