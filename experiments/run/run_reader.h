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

// What run folders hold, as far as a report needs it. emplace wrote these files, but they are read like anybody's:
// unknown and missing keys are refused, and so is what does not fit its checksum or ID (run_folder.h).

// A trial without trial.json: it failed, is being run, or was stopped.
struct UnfinishedTrial {
  std::string id = {};
  std::string what = {};                  // its cell in words, "" without a readable spec.json
  std::optional<std::string> error = {};  // the first line of error.txt: it failed
  JsonValue spec = {};                    // null without a readable spec.json that is the folder's
};

// RUNS/<experiment>.
struct ExperimentRuns {
  std::string name = {};
  std::string question = {};              // "" if there is none
  std::vector<std::string> metrics = {};  // empty: not said
  std::string published = {};             // a shipped table or a file; "" if none
  std::vector<TrialRecord> trials = {};   // by id
  std::vector<UnfinishedTrial> unfinished = {};
  std::size_t abandoned = 0;           // trials that LeaveOutAbandoned (abandoned_trials.h) left out
  std::vector<std::string> kept = {};  // what KeepTrials (trial_filter.h) left, "budget.evaluations 100"; empty: all
};

// RUNS/EXPERIMENT/ID with a trial.json. Throws InputError, its place a file, if one of its files is broken.
TrialRecord ReadFinishedTrial(const std::string& folder);
// The experiments of a run folder, by name: `path` is one of them (it holds experiment.json) or holds some. Throws
// InputError, its place a file or folder, if there is none, if no trial of any is finished, or if a file is broken.
std::vector<ExperimentRuns> ReadRuns(const std::string& path);

// A scalar as text without quotes, anything else as compact JSON.
std::string PlainText(const JsonValue& value);
// The cell of a trial in words: "placeto, cifar10 7, 3 devices, seed 1".
std::string DescribeSpec(const JsonValue& spec);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_RUN_RUN_READER_H_
