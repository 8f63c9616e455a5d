#ifndef EMPLACE_EXPERIMENTS_RUN_TRIAL_CRASHES_H_
#define EMPLACE_EXPERIMENTS_RUN_TRIAL_CRASHES_H_

#include <cstddef>
#include <string>
#include <vector>

namespace emplace::experiments {

// A process that ran a trial and ended without a result: crashes.jsonl has a line for each.
struct TrialCrash {
  std::string host = {};
  bool lost = false;     // its worker or its machine was lost too, so its end was not observed
  std::string how = {};  // "ended by signal 11 (Segmentation fault)"
  std::string log = {};  // the last part of its standard error
};

// A trial fails after this many crashes. Losses say little about the trial, so more of them are allowed.
inline constexpr std::size_t kMostCrashes = 3;
inline constexpr std::size_t kMostLosses = 20;

// Appends a line. Requires: this process holds the claim, or its child did. Throws WriteError.
void RecordCrash(const std::string& trial_folder, const TrialCrash& crash);
// Skips lines that are not readable. Oldest first.
std::vector<TrialCrash> ReadCrashes(const std::string& trial_folder);
// Why a trial with these crashes is not run again; "" if it is.
std::string CrashVerdict(const std::vector<TrialCrash>& crashes);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_RUN_TRIAL_CRASHES_H_
