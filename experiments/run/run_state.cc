#include "experiments/run/run_state.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>
#include <tuple>
#include <unordered_set>
#include <utility>

#include "experiments/run/run_folder.h"
#include "experiments/run/run_reader.h"
#include "experiments/run/trial_crashes.h"
#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "sim/base/json_text.h"
#include "sim/base/json_value.h"

namespace emplace::experiments {
namespace {

namespace fs = std::filesystem;

// The time left is extrapolated from this many finished trials, evenly spread over the plan.
constexpr std::size_t kMostTimed = 200;
constexpr std::chrono::milliseconds kClockKept(1000);
constexpr std::string_view kNotStarted = "not started";

std::string FileIn(const std::string& folder, std::string_view name) { return (fs::path(folder) / name).string(); }

// Evaluations and budget of the last whole line of progress.jsonl.
std::pair<std::size_t, std::size_t> ReadProgress(const std::string& folder) {
  const std::string path = FileIn(folder, "progress.jsonl");
  if (!fs::exists(path)) return {};
  std::istringstream lines(ReadWholeFile(path, InputKind::kTrialFile));
  std::pair<std::size_t, std::size_t> last;
  for (std::string line; std::getline(lines, line);) {
    try {
      const JsonValue json = ParseJson(line);
      const JsonValue* evaluations = FindMember(json, "evaluations");
      const JsonValue* budget = FindMember(json, "budget");
      if (evaluations == nullptr || budget == nullptr) continue;
      const auto* count = evaluations->As<std::int64_t>();
      const auto* most = budget->As<std::int64_t>();
      if (count != nullptr && most != nullptr) {
        last = {static_cast<std::size_t>(*count), static_cast<std::size_t>(*most)};
      }
    } catch (const InputError&) {
      // A part of a line.
    }
  }
  return last;
}

std::string DescribePlannedTrial(const PlanFile::Trial& trial) {
  try {
    return DescribeSpec(ParseJson(trial.spec));
  } catch (const InputError&) {
    return "";
  }
}

RunningTrial DescribeRunning(const PlanFile::Trial& trial, const std::string& folder, const ClaimSight& claim) {
  RunningTrial running{.id = trial.id(), .what = DescribePlannedTrial(trial), .holder = claim.holder};
  const double now = FileSystemSeconds(folder, kClockKept).value_or(claim.renewed_unix_s);
  running.last_sign_seconds = std::max(0.0, now - claim.renewed_unix_s);
  if (claim.holder.since_unix_s > 0) running.running_seconds = std::max(0.0, now - claim.holder.since_unix_s);
  std::tie(running.evaluations, running.budget) = ReadProgress(folder);
  return running;
}

FailedTrial DescribeFailed(const PlanFile::Trial& trial, const std::string& folder) {
  FailedTrial failed{
      .id = trial.id(), .what = DescribePlannedTrial(trial), .error = ReadTrialError(folder), .folder = folder};
  const std::vector<TrialCrash> crashes = ReadCrashes(folder);
  if (!crashes.empty()) failed.log = crashes.back().log;
  return failed;
}

std::string WhyWaiting(const std::string& folder, const std::optional<ClaimSight>& claim) {
  if (claim && !claim->holder.host.empty()) {
    if (HasEnded(claim->holder)) return fmt::format("the process on {} has ended", claim->holder.host);
    return fmt::format("the process on {} sent no heartbeat for longer than its lease of {:.0f} s", claim->holder.host,
                       claim->holder.lease_seconds);
  }
  if (const std::size_t crashes = ReadCrashes(folder).size(); crashes > 0) {
    return fmt::format("crashed {} times", crashes);
  }
  return fs::exists(FileIn(folder, "checkpoint.bin")) ? "stopped, with a checkpoint" : std::string(kNotStarted);
}

// Seconds of a finished trial; nullopt if timing.json is missing or damaged.
std::optional<double> SecondsOf(const std::string& folder) {
  const std::string path = FileIn(folder, "timing.json");
  CheckRegularFile(path);
  try {
    const JsonValue json = ParseJson(ReadWholeFile(path, InputKind::kTrialFile));
    const JsonValue* seconds = FindMember(json, "wall_seconds");
    if (seconds == nullptr) return std::nullopt;
    if (const auto* real = seconds->As<double>()) return *real;
    if (const auto* whole = seconds->As<std::int64_t>()) return static_cast<double>(*whole);
  } catch (const InputError&) {
    // Another process may be writing it.
  }
  return std::nullopt;
}

// The seconds of one process for the work that is left.
std::optional<double> WorkLeft(const PlanFile& plan, const std::vector<std::size_t>& finished, double work_left) {
  double work = 0;
  double seconds = 0;
  const std::size_t step = std::max<std::size_t>(1, finished.size() / kMostTimed);
  for (std::size_t i = 0; i < finished.size(); i += step) {
    const PlanFile::Trial& trial = plan.trials()[finished[i]];
    const std::optional<double> taken = SecondsOf(plan.FolderOf(trial));
    if (!taken) continue;
    work += trial.work;
    seconds += *taken;
  }
  if (!(work > 0)) return std::nullopt;
  return seconds * work_left / work;
}

std::size_t CountPlanned(const PlanFile& plan, const std::unordered_set<std::string>& present) {
  return static_cast<std::size_t>(std::count_if(plan.trials().begin(), plan.trials().end(),
                                                [&](const auto& trial) { return present.contains(trial.folder); }));
}

}  // namespace

TrialSight InspectTrial(const std::string& trial_folder) {
  if (IsFinished(trial_folder)) return {.state = TrialState::kFinished};
  TrialSight sight{.state = TrialState::kWaiting, .claim = SeeClaim(trial_folder)};
  if (sight.claim && !HasEnded(sight.claim->holder) &&
      !HasExpired(*sight.claim, FileSystemSeconds(fs::path(trial_folder).parent_path().string(), kClockKept))) {
    sight.state = TrialState::kRunning;
  } else if (fs::exists(FileIn(trial_folder, "error.txt"))) {
    sight.state = TrialState::kFailed;
  }
  return sight;
}

std::size_t RunState::num_waiting() const {
  std::size_t sum = 0;
  for (const WaitingTrials& group : waiting) sum += group.count;
  return sum;
}

RunState ReadRunState(const std::string& experiment_folder) {
  const PlanFile plan(experiment_folder);
  RunState state{.experiment = plan.experiment(), .folder = experiment_folder, .trials = plan.trials().size()};
  std::vector<std::size_t> finished;
  std::map<std::string, std::size_t> waiting;
  double work_left = 0;
  // One look at each folder that is there takes much less time than one at each trial.
  const std::vector<std::string> folders = ListTrialFolders(plan.folder());
  const std::unordered_set<std::string> present(folders.begin(), folders.end());
  for (std::size_t i = 0; i < plan.trials().size(); ++i) {
    const PlanFile::Trial& trial = plan.trials()[i];
    if (!present.contains(trial.folder)) {
      work_left += trial.work;
      ++waiting[std::string(kNotStarted)];
      continue;
    }
    const std::string folder = plan.FolderOf(trial);
    const TrialSight sight = InspectTrial(folder);
    if (sight.state == TrialState::kFinished) {
      CheckRegularFile(FileIn(folder, "trial.json"));
      finished.push_back(i);
      if (fs::exists(FileIn(folder, kDifferencesFile))) state.differing.push_back(folder);
      continue;
    }
    if (sight.state == TrialState::kFailed) {
      state.failed.push_back(DescribeFailed(trial, folder));
      continue;
    }
    work_left += trial.work;
    if (sight.state == TrialState::kRunning) {
      state.running.push_back(DescribeRunning(trial, folder, *sight.claim));
    } else {
      ++waiting[WhyWaiting(folder, sight.claim)];
    }
  }
  state.finished = finished.size();
  for (auto& [reason, count] : waiting) state.waiting.push_back({.reason = reason, .count = count});
  state.others = present.size() - CountPlanned(plan, present);
  state.work_left_seconds = WorkLeft(plan, finished, work_left);
  if (state.work_left_seconds && !state.running.empty()) {
    state.left_seconds = *state.work_left_seconds / static_cast<double>(state.running.size());
  }
  return state;
}

}  // namespace emplace::experiments
