#ifndef EMPLACE_EXPERIMENTS_REPORT_PROVENANCE_H_
#define EMPLACE_EXPERIMENTS_REPORT_PROVENANCE_H_

#include <vector>

#include "experiments/report/document.h"
#include "experiments/run/run_reader.h"

namespace emplace::experiments {

// The last section of an experiment's report: its trials, finished or not, their settings, the version that ran them,
// and the options of the agents.
std::vector<ReportBlock> ProvenanceBlocks(const ExperimentRuns& runs);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_PROVENANCE_H_
