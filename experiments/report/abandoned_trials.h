#ifndef EMPLACE_EXPERIMENTS_REPORT_ABANDONED_TRIALS_H_
#define EMPLACE_EXPERIMENTS_REPORT_ABANDONED_TRIALS_H_

#include <string>
#include <vector>

#include "experiments/run/run_reader.h"

namespace emplace::experiments {

// A run folder keeps the trials of earlier versions of an experiment file. Trials that the file no longer has, finished
// or not, are abandoned. Removes the abandoned trials of the experiment that `file` describes, and counts them in
// `abandoned`. Plans the experiment as a sweep does. Throws InputError like ReadExperiment and PlanTrials. Its place is
// `file` if no experiment of that name ran, or none of its finished trials remains.
void LeaveOutAbandoned(const std::string& file, std::vector<ExperimentRuns>* experiments);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_ABANDONED_TRIALS_H_
