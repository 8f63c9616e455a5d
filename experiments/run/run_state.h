#ifndef EMPLACE_EXPERIMENTS_RUN_RUN_STATE_H_
#define EMPLACE_EXPERIMENTS_RUN_RUN_STATE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "experiments/run/plan_file.h"
#include "experiments/run/trial_claim.h"

namespace emplace::experiments {

// The state of a trial according to its folder.
enum class TrialState : std::uint8_t {
  kFinished,  // trial.json exists
  kFailed,    // error.txt exists
  kRunning,   // a process holds the claim
  kWaiting,   // everything else
};
struct TrialSight {
  TrialState state = TrialState::kWaiting;
  std::optional<ClaimSight> claim = {};  // the claim, even if it has expired
};
TrialSight InspectTrial(const std::string& trial_folder);

struct RunningTrial {
  std::string id = {};
  std::string what = {};  // its cell in words
  ClaimHolder holder = {};
  double running_seconds = 0;    // since the claim
  double last_sign_seconds = 0;  // since the lease was renewed
  std::size_t evaluations = 0;   // value in the last line of progress.jsonl
  std::size_t budget = 0;
};
struct FailedTrial {
  std::string id = {};
  std::string what = {};
  std::string error = {};   // the line of error.txt
  std::string folder = {};  // folder of the trial
  std::string log = {};     // log of its last crash; "" if unknown
};
// Trials that wait for the same reason.
struct WaitingTrials {
  std::string reason = {};
  std::size_t count = 0;
};

// The trials of a plan, and of folders that are not in it.
struct RunState {
  std::string experiment = {};
  std::string folder = {};
  std::size_t trials = 0;
  std::size_t finished = 0;
  std::vector<FailedTrial> failed = {};
  std::vector<RunningTrial> running = {};
  std::vector<WaitingTrials> waiting = {};
  std::vector<std::string> differing = {};       // folders in which two runs differed: a bug
  std::size_t others = 0;                        // folders of trials that are not in the plan
  std::optional<double> left_seconds = {};       // estimate with the processes that run now
  std::optional<double> work_left_seconds = {};  // the same for one process

  std::size_t num_waiting() const;
};

// Reads RUNS/EXPERIMENT. Throws InputError, its place a file, if there is no plan or a file is damaged.
RunState ReadRunState(const std::string& experiment_folder);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_RUN_RUN_STATE_H_
