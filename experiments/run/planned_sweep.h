#ifndef EMPLACE_EXPERIMENTS_RUN_PLANNED_SWEEP_H_
#define EMPLACE_EXPERIMENTS_RUN_PLANNED_SWEEP_H_

#include <cstddef>
#include <iosfwd>
#include <string>
#include <vector>

#include "experiments/plan/experiment.h"
#include "experiments/plan/trial_plan.h"

namespace emplace::experiments {

// An experiment with its trials, and their folders in a folder of runs.
struct PlannedSweep {
  ExperimentSpec experiment = {};
  TrialPlan plan = {};
  std::string folder = {};                // RUNS/EXPERIMENT, absolute
  std::vector<std::string> folders = {};  // absolute folders of the trials
  std::size_t part_of = 0;                // for a part of a sweep: number of trials of the whole sweep

  bool RunsOnHardware() const;
};

// Reads and plans. Writes nothing. Throws InputError, also if `runs` cannot be a folder.
PlannedSweep PlanSweep(const std::string& experiment_file, const std::string& runs);
// The same for an experiment's text; `name` is what errors call it.
PlannedSweep PlanSweep(std::istream& experiment, const std::string& name, const std::string& runs);

// Some of the trials of a sweep, in the folders that they have in all of it.
PlannedSweep PartOf(const PlannedSweep& sweep, const std::vector<std::size_t>& trials);

// Writes experiment.json and plan.jsonl, from which workers can begin. Up to 100 trials get their folders at once.
// Trials that failed are to be run again.
void WritePlannedSweep(const PlannedSweep& sweep);
// The same where only a part is to be run: failures of other trials stay.
void WritePlannedSweep(const PlannedSweep& sweep, const PlannedSweep& part);

// "thesis: 300 trials in 12 cells, 1 cell excluded"; of a part, "thesis: 20 of 300 trials".
std::string SizeText(const PlannedSweep& sweep);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_RUN_PLANNED_SWEEP_H_
