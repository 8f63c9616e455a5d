#ifndef EMPLACE_EXPERIMENTS_RUN_SWEEP_RUN_H_
#define EMPLACE_EXPERIMENTS_RUN_SWEEP_RUN_H_

#include <cstddef>
#include <string>

#include "experiments/run/planned_sweep.h"

namespace emplace::experiments {

// How many trials run at one time: `jobs`, and one for each core if that is 0. Measurements on real devices must not
// disturb each other, so those trials run one at a time.
std::size_t ProcessesOf(std::size_t jobs, const PlannedSweep& sweep);
// Throws InputError if that many trials cannot run at one time.
void CheckJobs(std::size_t jobs, const PlannedSweep& sweep);

struct SweepOutcome {
  // kSuccess; SignalStatus, after a signal; kNotFound if trials failed; kBug if two runs of a trial differ.
  int status = 0;
  bool has_ended = false;  // every trial is finished or failed; else the reason is on standard error
  std::size_t failed = 0;  // trials, if it has ended
};

// Runs the trials of a sweep that are not finished, with progress on standard error, which starts with `note` unless it
// is empty. The plan must be written.
SweepOutcome RunSweep(const PlannedSweep& sweep, std::size_t jobs, const std::string& note = "");
// Says on standard error how many failed, if any.
void PrintFailedTrials(const PlannedSweep& sweep, std::size_t failed);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_RUN_SWEEP_RUN_H_
