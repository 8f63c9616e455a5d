#ifndef EMPLACE_EXPERIMENTS_RUN_RUN_FOLDER_H_
#define EMPLACE_EXPERIMENTS_RUN_RUN_FOLDER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "experiments/spec/experiment.h"
#include "experiments/spec/trial_plan.h"

namespace emplace::experiments {

// RUNS/EXPERIMENT/ID: what a trial reads and writes. Every file appears whole or not at all, but for progress.jsonl,
// which grows line by line. What is read again is checked: spec.json against ID, which is its fingerprint;
// best_placement.json against `best_placement_fingerprint` of trial.json; the others hold a checksum (checked_json.h,
// checkpoint.h, policy_file.h).
//   spec.json            what to do: the only file that is there before it starts
//   checkpoint.bin       from which it goes on
//   progress.jsonl       a line now and then: evaluations, budget, best_step_time_us, unix_s
//   best_placement.json  `emplace.placement`; of the first graph; none if nothing fits
//   policy.bin           what a learning agent learned
//   timing.json          `emplace.timing`: what a clock measured
//   trial.json           `emplace.trial`: what the seed determines, the last to appear: a folder with it is finished
//   error.txt            instead: one line, why it failed
//   lock                 held by the process that runs it

// Makes the folder of a trial in the folder of its experiment, and spec.json in it, unless they are there. A damaged
// spec.json is written again, with a line on standard error. Returns the trial's folder.
std::string PrepareTrialFolder(const std::string& experiment_folder, const PlannedTrial& trial);
// Writes RUNS/EXPERIMENT/experiment.json, the folder made if it is not there: the experiment as JSON, with `question`.
void WriteExperimentFile(const std::string& experiment_folder, const ExperimentSpec& experiment);

bool IsFinished(const std::string& trial_folder);

enum class TrialOutcome : std::uint8_t {
  kDone,    // trial.json is there
  kFailed,  // error.txt is there
  kBusy,    // another process runs it
};
// Runs the trial of a folder, from its checkpoint if it has one, unless it is finished. trial.json is the same to the
// byte however often it was stopped on the way. Throws InputError only if the folder cannot be written.
TrialOutcome RunTrialFolder(const std::string& trial_folder);

// Says in error.txt why a trial failed, a process that crashed included.
void WriteTrialError(const std::string& trial_folder, const std::string& line);
std::string ReadTrialError(const std::string& trial_folder);  // "" if there is none

// Of a finished trial, for people.
struct TrialSummary {
  std::optional<double> best_micros;          // of its first graph
  std::optional<double> improvement_percent;  // report_improvement.h; mean over its graphs that have one
  double wall_seconds = 0;                    // 0 if timing.json is not there
};
// Throws InputError like ReadFinishedTrial.
TrialSummary SummariseTrial(const std::string& trial_folder);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_RUN_RUN_FOLDER_H_
