#ifndef EMPLACE_TOOLS_PLANNED_SWEEP_H_
#define EMPLACE_TOOLS_PLANNED_SWEEP_H_

#include <cstddef>
#include <string>
#include <vector>

#include "experiments/spec/experiment.h"
#include "experiments/spec/trial_plan.h"

namespace emplace::tools {

// An experiment with its trials, and their folders in a folder of runs.
struct PlannedSweep {
  experiments::ExperimentSpec experiment = {};
  experiments::TrialPlan plan = {};
  std::string folder = {};                // RUNS/EXPERIMENT, absolute
  std::vector<std::string> folders = {};  // of each trial, absolute

  bool RunsOnHardware() const;
};

// Reads and plans. Writes nothing. Throws InputError, also if `runs` cannot be a folder.
PlannedSweep PlanSweep(const std::string& experiment_file, const std::string& runs);

// Writes experiment.json and plan.jsonl, from which workers can begin. Up to 100 trials get their folders at once.
// Trials that failed are to be run again.
void WritePlannedSweep(const PlannedSweep& sweep);

// "thesis: 300 trials in 12 cells, 1 cell excluded".
std::string SizeText(const PlannedSweep& sweep);

}  // namespace emplace::tools

#endif  // EMPLACE_TOOLS_PLANNED_SWEEP_H_
