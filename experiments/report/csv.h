#ifndef EMPLACE_EXPERIMENTS_REPORT_CSV_H_
#define EMPLACE_EXPERIMENTS_REPORT_CSV_H_

#include <iosfwd>
#include <vector>

#include "experiments/run/run_reader.h"

namespace emplace::experiments {

// One line for each trial and graph; graphs on which a policy was only evaluated have `transfer` 1. Measurements of a
// whole trial are on its first line. improvement_percent is defined in trial_record.h; thesis_improvement_percent
// is relative to the first placement. Times are in µs unless a heading says seconds; empty: no value.
void WriteTrialsCsv(std::ostream& out, const std::vector<ExperimentRuns>& experiments);

// One line for each cell of a report's tables, including averages. Step times in µs; trials_found and trials_wanted are
// CellTrials' (tables.h). Throws InputError like MakeReport.
void WriteTableCsv(std::ostream& out, const std::vector<ExperimentRuns>& experiments);

// One line for each two agents that share pairs, over all trials and within each dataset. `difference` is better minus
// worse: in percentage points of improvement, or 100 times the log of the ratio of step times. p_pairs, p_problems and
// p_graphs are Wilcoxon's, not corrected; `holm` are corrected over the lines of the same quantity and dataset.
void WriteTestsCsv(std::ostream& out, const std::vector<ExperimentRuns>& experiments);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_CSV_H_
