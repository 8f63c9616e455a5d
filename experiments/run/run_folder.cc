#include "experiments/run/run_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>
#include <ostream>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "agents/search.h"
#include "experiments/run/hardware_reward.h"
#include "experiments/run/run_reader.h"
#include "experiments/run/trial_json.h"
#include "experiments/spec/checked_json.h"
#include "experiments/spec/problem.h"
#include "experiments/validation/validation.h"
#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "sim/base/json_build.h"
#include "sim/base/json_text.h"
#include "sim/base/json_value.h"
#include "sim/base/printable.h"
#include "sim/base/temporary_file.h"
#include "sim/placement.h"
#include "sim/simulator.h"

namespace emplace::experiments {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTrialKey = "trial.json";
constexpr std::chrono::seconds kProgressEvery(1);

std::string In(const std::string& folder, std::string_view name) { return (fs::path(folder) / name).string(); }

void MakeFolder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) throw InputError(path, "cannot be made (" + error.message() + ")");
}

void Remove(const std::string& path) {
  std::error_code ignored;
  fs::remove(path, ignored);
}

// A lock that is released when its process ends, even by a crash.
class FolderLock {
 public:
  explicit FolderLock(const std::string& folder)
      : fd_(::open(In(folder, "lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
    if (fd_ < 0) {
      throw InputError(In(folder, "lock"), "cannot be written (" + std::generic_category().message(errno) + ")");
    }
    held_ = ::flock(fd_, LOCK_EX | LOCK_NB) == 0;
  }
  ~FolderLock() { ::close(fd_); }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  bool held() const { return held_; }

 private:
  int fd_;
  bool held_ = false;
};

// progress.jsonl: each line is a single write, so that no partial line remains.
class ProgressLog {
 public:
  explicit ProgressLog(const std::string& folder)
      : fd_(::open(In(folder, "progress.jsonl").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) {}
  ~ProgressLog() {
    if (fd_ >= 0) ::close(fd_);
  }
  ProgressLog(const ProgressLog&) = delete;
  ProgressLog& operator=(const ProgressLog&) = delete;

  void Show(const agents::SearchProgress& progress) {
    const auto now = std::chrono::steady_clock::now();
    if (now < next_ && progress.evaluations < progress.budget) return;
    next_ = now + kProgressEvery;
    const double unix_seconds =
        std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
    JsonObject line;
    AddMember(&line, "evaluations", progress.evaluations);
    AddMember(&line, "budget", progress.budget);
    AddMember(&line, "best_step_time_us", progress.best_micros);
    AddMember(&line, "unix_s", std::round(unix_seconds * 1000) / 1000);
    std::string text;
    AppendJson(&text, {std::move(line)});
    text.push_back('\n');
    // The log is informational, so a write error does not fail the trial.
    if (fd_ >= 0 && ::write(fd_, text.data(), text.size()) < 0) return;
  }

 private:
  int fd_;
  std::chrono::steady_clock::time_point next_;
};

// Deletes an unusable checkpoint (of an earlier version, or damaged) and starts the trial again.
agents::SearchResult RunFromCheckpoint(const agents::SearchSpec& spec, const std::string& folder) {
  ProgressLog log(folder);
  const auto run = [&] {
    return agents::RunSearch(spec, [&log](const agents::SearchProgress& progress) { log.Show(progress); });
  };
  try {
    return run();
  } catch (const agents::UnusableCheckpoint& error) {
    std::fputs(fmt::format("{}; starting again\n", error.what()).c_str(), stderr);
    Remove(spec.checkpoint);
    return run();
  }
}

// Runs a trial with real devices, which evaluate all or some placements, or check the best.
agents::SearchResult RunOnHardware(agents::SearchSpec spec, const HardwareChoice& choice, const std::string& folder,
                                   MeasuredSteps* measured) {
  const agents::SearchProblem& problem = spec.problem;
  const Simulator simulator(problem.graph, problem.cluster, problem.costs,
                            {.engine = spec.engine, .peak_memory = true, .start_times = true});
  const ClusterHardware hardware(problem.graph, problem.cluster, choice.options);
  RewardEvaluator evaluator(simulator, hardware.runner(), choice);
  spec.evaluator = &evaluator;
  spec.evaluator_state = &evaluator;
  agents::SearchResult result = RunFromCheckpoint(spec, folder);
  measured->checks = evaluator.checks();
  if (result.best) {
    const profiler::HardwareStep best = hardware.runner().Measure(*result.best);
    if (best.result.fits_memory) measured->best_micros = best.result.step_time_micros;
    if (!best.op_times.alone.empty()) {
      measured->interleaved_micros = SimulateWithTimes(problem.graph, problem.cluster, problem.costs,
                                                       simulator.options(), best.op_times, *result.best)
                                         .micros;
    }
  }
  return result;
}

// Reads spec.json and checks it against the folder's name.
JsonValue ReadSpec(const std::string& folder) {
  const std::string path = In(folder, "spec.json");
  JsonValue spec = ReadJsonFile(path);
  try {
    CheckTrialId(spec, fs::path(folder).filename().string());
  } catch (const InputError& error) {
    throw error.In(path);
  }
  return spec;
}

void RunLocked(const std::string& folder) {
  RemoveLeftovers(folder);
  Remove(In(folder, "error.txt"));
  const JsonValue spec_json = ReadSpec(folder);
  const TrialChoice choice = ReadTrialChoice(spec_json);
  agents::SearchSpec spec = LoadSearchSpec(choice);
  spec.checkpoint = In(folder, "checkpoint.bin");
  std::optional<MeasuredSteps> measured;
  agents::SearchResult result;
  if (choice.hardware) {
    RefuseSeveralGraphs(!spec.also.empty(), !spec.transfer.empty());
    result = RunOnHardware(spec, *choice.hardware, folder, &measured.emplace());
  } else {
    result = RunFromCheckpoint(spec, folder);
  }
  std::string placement;
  if (result.best) {
    std::ostringstream text;
    WritePlacement(text, *result.best, spec.problem.graph, spec.problem.cluster);
    placement = std::move(text).str();
    WriteFile(In(folder, "best_placement.json"), [&placement](std::ostream& out) { out << placement; });
  }
  if (!result.policy.empty()) {
    WriteFile(In(folder, "policy.bin"), [&result](std::ostream& out) { out << result.policy; });
  }
  WriteJsonFile(In(folder, "timing.json"), TimingToJson(result, measured));
  WriteJsonFile(In(folder, kTrialKey),
                TrialToJson(fs::path(folder).filename().string(), spec_json, spec, result, placement));
}

// The absolute path without a trailing slash, as its last part is the trial's id.
std::string Normal(const std::string& folder) {
  const fs::path path = fs::absolute(folder).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).string();
}

}  // namespace

std::string PrepareTrialFolder(const std::string& experiment_folder, const PlannedTrial& trial) {
  std::string folder = In(experiment_folder, trial.id);
  MakeFolder(folder);
  RemoveLeftovers(folder);
  const std::string spec = In(folder, "spec.json");
  if (fs::exists(spec)) {
    try {
      ReadSpec(folder);
      return folder;
    } catch (const InputError& error) {
      fmt::print(stderr, "{}; written again\n", error.what());
    }
  }
  WriteJsonFile(spec, trial.spec);
  return folder;
}

void WriteExperimentFile(const std::string& experiment_folder, const ExperimentSpec& experiment) {
  MakeFolder(experiment_folder);
  RemoveLeftovers(experiment_folder);
  JsonObject json;
  for (const JsonMember& member : *experiment.root.As<JsonObject>()) {
    if (member.key == "question" || member.key == kChecksumKey) continue;
    if (member.key == "published") {
      AddMember(&json, member.key, experiment.published);  // the resolved path is valid from any directory
      continue;
    }
    json.push_back(member);
    if (member.key == "name") AddMember(&json, "question", experiment.question);
  }
  AddChecksum(&json);
  WriteJsonFile(In(experiment_folder, "experiment.json"), {std::move(json)});
}

bool IsFinished(const std::string& trial_folder) { return fs::exists(In(trial_folder, kTrialKey)); }

TrialOutcome RunTrialFolder(const std::string& trial_folder) {
  const std::string folder = Normal(trial_folder);
  const FolderLock lock(folder);
  if (!lock.held()) return TrialOutcome::kBusy;
  if (IsFinished(folder)) return TrialOutcome::kDone;
  try {
    RunLocked(folder);
    return TrialOutcome::kDone;
  } catch (const std::bad_alloc&) {
    WriteTrialError(folder, "out of memory");
  } catch (const std::exception& error) {
    WriteTrialError(folder, error.what());
  }
  return TrialOutcome::kFailed;
}

void WriteTrialError(const std::string& trial_folder, const std::string& line) {
  // InputError converts it to a single line.
  const std::string text = InputError("", line).what();
  WriteFile(In(trial_folder, "error.txt"), [&text](std::ostream& out) { out << text << '\n'; });
}

std::string ReadTrialError(const std::string& trial_folder) {
  if (!fs::exists(In(trial_folder, "error.txt"))) return "";
  const std::string text = ReadWholeFile(In(trial_folder, "error.txt"));
  return text.substr(0, text.find('\n'));
}

TrialSummary SummariseTrial(const std::string& trial_folder) {
  const TrialRecord trial = ReadFinishedTrial(trial_folder);
  TrialSummary summary;
  summary.best_micros = trial.graphs.front().best_micros;
  double sum = 0;
  double count = 0;
  for (const GraphRecord& graph : trial.graphs) {
    const std::optional<double> improvement = ImprovementPercent(graph.single_device_micros, graph.best_micros);
    sum += improvement.value_or(0);
    count += improvement ? 1 : 0;
  }
  if (count > 0) summary.improvement_percent = sum / count;
  if (trial.timing) summary.wall_seconds = trial.timing->wall_seconds;
  return summary;
}

}  // namespace emplace::experiments
