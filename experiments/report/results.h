#ifndef EMPLACE_EXPERIMENTS_REPORT_RESULTS_H_
#define EMPLACE_EXPERIMENTS_REPORT_RESULTS_H_

#include <string>
#include <vector>

#include "experiments/report/document.h"
#include "experiments/report/grid.h"
#include "experiments/report/published.h"
#include "experiments/report/tables.h"
#include "experiments/run/run_reader.h"

namespace emplace::experiments {

// A table of a metric, as reports, sweeps, the dashboard and Python show it: a row for each agent, best first, and the
// best of each column marked. What lacks a trial says how many it has, comes behind, and is never the best.
TableBlock ShowTable(const MetricTable& table);
// The table of the improvement, of all trials of the runs. Requires: at least one trial is finished.
TableBlock ImprovementTable(const ExperimentRuns& runs);
// A sentence for each grouping that moves whole modules: how much longer steps take than where single ops move, in the
// median of its trials.
std::vector<std::string> SingleOpsNotes(const std::vector<TrialRecord>& trials);

// The section "Results": a table for each metric to report, best first, with published figures (may be null) next to
// ours.
std::vector<ReportBlock> ResultBlocks(const ExperimentRuns& runs, const ReportGrid& grid,
                                      const PublishedFigures* published);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_RESULTS_H_
