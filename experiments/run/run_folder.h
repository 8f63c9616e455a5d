#ifndef EMPLACE_EXPERIMENTS_RUN_RUN_FOLDER_H_
#define EMPLACE_EXPERIMENTS_RUN_RUN_FOLDER_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "experiments/plan/experiment.h"
#include "experiments/plan/trial_plan.h"
#include "experiments/run/trial_claim.h"

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
//   crashes.jsonl        one line for each process that ended without a result (trial_crashes.h)
//   lock                 the claim of the process that runs the trial (trial_claim.h)
// Experiments of more than 100 trials have RUNS/EXPERIMENT/SHARD/ID (plan_file.h).

// Creates the folder of a trial in its experiment's folder, with spec.json, unless they exist. A damaged spec.json is
// written again, with a line on standard error. Returns the trial's folder.
std::string PrepareTrialFolder(const std::string& experiment_folder, const PlannedTrial& trial);
// The same for a trial's folder and the content of its spec.json, without the newline.
void PrepareTrialFolder(const std::string& trial_folder, std::string_view spec);
// Writes RUNS/EXPERIMENT/experiment.json, the experiment as JSON with `question`. Creates the folder if necessary.
void WriteExperimentFile(const std::string& experiment_folder, const ExperimentSpec& experiment);

bool IsFinished(const std::string& trial_folder);

enum class TrialOutcome : std::uint8_t {
  kDone,         // trial.json exists
  kFailed,       // error.txt exists
  kBusy,         // another process runs it
  kLost,         // another process took the claim over, because this one was stopped for longer than its lease
  kInterrupted,  // its checkpoint is saved
  kDiffers,      // another process finished it meanwhile, with other bytes: a bug; see kDifferencesFile
};
struct TrialRunOptions {
  std::chrono::milliseconds lease = kDefaultLease;
  std::function<bool()> interrupt = {};   // SearchSpec::interrupt
  std::function<void()> publishing = {};  // called when only files are left to be written; not with hardware
};
// Runs the trial of a folder unless it is finished, and resumes from its checkpoint if it has one. trial.json is
// byte-identical however often the trial was interrupted. Throws InputError only if the folder cannot be written, and
// WriteError if the file system is full or broken, which is not a failure of the trial.
TrialOutcome RunTrialFolder(const std::string& trial_folder, const TrialRunOptions& options = {});

// The file that says how two runs of one trial differed, one line for each of their files.
inline constexpr std::string_view kDifferencesFile = "differences.txt";

// Writes the reason of a trial's failure, including a crashed process, to error.txt.
void WriteTrialError(const std::string& trial_folder, const std::string& line);
// Removes error.txt and crashes.jsonl, so that the trial is run again.
void ForgetTrialError(const std::string& trial_folder);
std::string ReadTrialError(const std::string& trial_folder);  // "" if there is none

// Summary of a finished trial for display.
struct TrialSummary {
  std::optional<double> best_micros;          // best step time on the first graph
  std::optional<double> improvement_percent;  // trial_record.h; mean over its graphs that have one
  bool worse_than_one_device =
      false;                // whether this holds on one of its graphs: GraphRecord::beaten_by_one_device_micros
  double wall_seconds = 0;  // 0 if timing.json is missing
};
// Throws InputError like ReadFinishedTrial.
TrialSummary SummariseTrial(const std::string& trial_folder);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_RUN_RUN_FOLDER_H_
