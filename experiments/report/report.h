#ifndef EMPLACE_EXPERIMENTS_REPORT_REPORT_H_
#define EMPLACE_EXPERIMENTS_REPORT_REPORT_H_

#include <vector>

#include "experiments/report/report_document.h"
#include "experiments/report/report_pictures.h"
#include "experiments/run/run_reader.h"

namespace emplace::experiments {

// The answers that runs give to their experiments' questions: who won, with a figure; a table for each metric with
// published figures beside ours, paired tests, learning curves, the best placement of each dataset drawn, and what ran.
// Same runs, same report. Trials are as FillSingleDeviceTimes leaves them. Throws InputError on an unknown metric or
// published table, and like PictureBlocks.
ReportDocument MakeReport(const std::vector<ExperimentRuns>& experiments, const RebuildProblem& rebuild);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_REPORT_H_
