#ifndef EMPLACE_EXPERIMENTS_REPORT_ABANDONED_TRIALS_H_
#define EMPLACE_EXPERIMENTS_REPORT_ABANDONED_TRIALS_H_

#include <string>
#include <vector>

#include "experiments/run/run_reader.h"

namespace emplace::experiments {

// A run folder keeps the trials of what an experiment file said earlier: finished or not, they are abandoned once the
// file no longer has them. This drops those of the experiment that `file` describes, and counts them in `abandoned`.
// Plans the experiment as a sweep does. Throws InputError like ReadExperiment and PlanTrials; its place `file` if no
// experiment of that name ran, or if no finished trial is left of it.
void LeaveOutAbandoned(const std::string& file, std::vector<ExperimentRuns>* experiments);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_ABANDONED_TRIALS_H_
