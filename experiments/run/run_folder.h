#ifndef EMPLACE_EXPERIMENTS_RUN_RUN_FOLDER_H_
#define EMPLACE_EXPERIMENTS_RUN_RUN_FOLDER_H_

#include <cstdint>
#include <optional>
#include <string>

#include "experiments/spec/experiment.h"
#include "experiments/spec/trial_plan.h"

namespace emplace::experiments {

// RUNS/EXPERIMENT/ID: the files of a trial. Every file is written atomically, except progress.jsonl, which is appended
// line by line. Files are checked when read: spec.json against ID, its fingerprint; best_placement.json against
// `best_placement_fingerprint` of trial.json; the others contain a checksum (checked_json.h, checkpoint.h,
// policy_file.h).
//   spec.json            the input: the only file that exists before the trial starts
//   checkpoint.bin       state from which the trial is resumed
//   progress.jsonl       one line per interval: evaluations, budget, best_step_time_us, unix_s
//   best_placement.json  `emplace.placement`; of the first graph; none if nothing fits
//   policy.bin           the learned policy
//   timing.json          `emplace.timing`: measured times
//   trial.json           `emplace.trial`: results determined by the seed; written last, it marks a finished trial
//   error.txt            if the trial failed: one line with the reason
//   lock                 held by the process that runs the trial

// Creates the folder of a trial in its experiment's folder, with spec.json, unless they exist. A damaged spec.json is
// written again, with a line on standard error. Returns the trial's folder.
std::string PrepareTrialFolder(const std::string& experiment_folder, const PlannedTrial& trial);
// Writes RUNS/EXPERIMENT/experiment.json, the experiment as JSON with `question`. Creates the folder if necessary.
void WriteExperimentFile(const std::string& experiment_folder, const ExperimentSpec& experiment);

bool IsFinished(const std::string& trial_folder);

enum class TrialOutcome : std::uint8_t {
  kDone,    // trial.json exists
  kFailed,  // error.txt exists
  kBusy,    // another process runs it
};
// Runs the trial of a folder unless it is finished, and resumes from its checkpoint if it has one. trial.json is
// byte-identical however often the trial was interrupted. Throws InputError only if the folder cannot be written.
TrialOutcome RunTrialFolder(const std::string& trial_folder);

// Writes the reason of a trial's failure, including a crashed process, to error.txt.
void WriteTrialError(const std::string& trial_folder, const std::string& line);
std::string ReadTrialError(const std::string& trial_folder);  // "" if there is none

// Summary of a finished trial for display.
struct TrialSummary {
  std::optional<double> best_micros;          // of its first graph
  std::optional<double> improvement_percent;  // trial_record.h; mean over its graphs that have one
  double wall_seconds = 0;                    // 0 if timing.json is missing
};
// Throws InputError like ReadFinishedTrial.
TrialSummary SummariseTrial(const std::string& trial_folder);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_RUN_RUN_FOLDER_H_
