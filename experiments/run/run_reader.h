#ifndef EMPLACE_EXPERIMENTS_RUN_RUN_READER_H_
#define EMPLACE_EXPERIMENTS_RUN_RUN_READER_H_

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/run/trial_record.h"
#include "sim/base/json_value.h"

namespace emplace::experiments {

// Contents of run folders that a report needs. Although emplace wrote the files, they are fully checked. Unknown and
// missing keys are rejected, as are files that do not match their checksum or ID (run_folder.h).

// A trial without trial.json: it failed, is running, or was interrupted.
struct UnfinishedTrial {
  std::string id = {};
  std::string what = {};                  // its cell in words; "" without a readable spec.json
  std::optional<std::string> error = {};  // the first line of error.txt, if it failed
  JsonValue spec = {};                    // null without a readable spec.json that matches the folder
  std::string folder = {};                // its path; "" if no worker has begun it

  std::optional<std::string> label() const;  // of its agent; none without a spec
};

// RUNS/<experiment>.
struct ExperimentRuns {
  std::string name = {};
  std::string question = {};              // "" if there is none
  std::vector<std::string> metrics = {};  // empty: not specified
  std::string published = {};             // a shipped table or a file; "" if none
  std::vector<TrialRecord> trials = {};   // ordered by id
  std::vector<UnfinishedTrial> unfinished = {};
  std::size_t abandoned = 0;           // trials that LeaveOutAbandoned (trial_filter.h) removed
  std::vector<std::string> kept = {};  // conditions of KeepTrials (trial_filter.h); empty: all trials
};

// Reads RUNS/EXPERIMENT/ID with a trial.json. Throws InputError, its place a file, if a file is invalid.
TrialRecord ReadFinishedTrial(const std::string& folder);
// Reads RUNS/EXPERIMENT, where no trial need be finished. Throws InputError, its place a file, if a file is invalid.
ExperimentRuns ReadExperiment(const std::string& folder);
// Throws InputError if there is no such folder.
void CheckIsRunsFolder(const std::string& path);
// The experiments of a run folder, by name: `path` is an experiment (it contains experiment.json) or contains some.
// Throws InputError, its place a file or folder, if there is none, if no trial is finished, or if a file is invalid.
std::vector<ExperimentRuns> ReadRuns(const std::string& path);

// The finished trials, then a record without results for each trial that is not finished and whose spec is known: what
// tables mark as missing.
std::vector<TrialRecord> WithMissingTrials(const ExperimentRuns& runs);

// A scalar as text without quotes, anything else as compact JSON.
std::string PlainText(const JsonValue& value);
// The cell of a trial in words: "placeto, cifar10 7, 3 devices, seed 1".
std::string DescribeSpec(const JsonValue& spec);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_RUN_RUN_READER_H_
