#ifndef EMPLACE_EXPERIMENTS_REPORT_TEST_TABLES_H_
#define EMPLACE_EXPERIMENTS_REPORT_TEST_TABLES_H_

#include <string>
#include <vector>

#include "experiments/report/document.h"
#include "experiments/report/grid.h"
#include "experiments/report/paired_tests.h"
#include "experiments/run/run_reader.h"

namespace emplace::experiments {

// A row and a column for each agent of `labels` with a test: the row's mean minus the column's, with interval and
// p-values. Requires: at least one test. The lower triangle repeats the upper one with the opposite sign.
TableBlock TestMatrix(const std::vector<PairedTest>& tests, const std::vector<std::string>& labels,
                      const std::string& caption);

// The section "Paired comparisons": a matrix over all columns of the grid and one for each dataset. `labels`: agents in
// the order of rows. Empty for a single agent.
std::vector<ReportBlock> TestBlocks(const std::vector<TrialRecord>& trials, const ReportGrid& grid,
                                    const std::vector<std::string>& labels);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_TEST_TABLES_H_
