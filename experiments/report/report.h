#ifndef EMPLACE_EXPERIMENTS_REPORT_REPORT_H_
#define EMPLACE_EXPERIMENTS_REPORT_REPORT_H_

#include <vector>

#include "experiments/report/document.h"
#include "experiments/report/pictures.h"
#include "experiments/run/run_reader.h"

namespace emplace::experiments {

// Creates the report that answers the experiments' questions from their runs. It has the best agent with a figure, a
// table for each metric with published figures next to ours, paired tests, and learning curves. Then follow a picture
// of the best placement of each dataset, and what ran. The same runs give the same report. Trials must have been
// completed by FillSingleDeviceTimes. Throws InputError on an unknown metric or published table, and like
// PictureBlocks.
ReportDocument MakeReport(const std::vector<ExperimentRuns>& experiments, const RebuildProblem& rebuild);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_REPORT_H_
