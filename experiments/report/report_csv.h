#ifndef EMPLACE_EXPERIMENTS_REPORT_REPORT_CSV_H_
#define EMPLACE_EXPERIMENTS_REPORT_REPORT_CSV_H_

#include <iosfwd>
#include <vector>

#include "experiments/run/run_reader.h"

namespace emplace::experiments {

// One line for each trial and graph; graphs that a policy was only tried on have `transfer` 1. What was measured of a
// whole trial is on its first line. improvement_percent is report_improvement.h's; thesis_improvement_percent is over
// the first placement. Times are in µs unless a heading says seconds; empty: no value.
void WriteTrialsCsv(std::ostream& out, const std::vector<ExperimentRuns>& experiments);

// One line for each cell of a report's tables, averages included. Step times in µs. Throws InputError as MakeReport.
void WriteTableCsv(std::ostream& out, const std::vector<ExperimentRuns>& experiments);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_REPORT_CSV_H_
