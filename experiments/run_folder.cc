#include "experiments/run_folder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <new>
#include <ostream>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "experiments/hardware_reward.h"
#include "experiments/json_build.h"
#include "experiments/problem.h"
#include "experiments/trial.h"
#include "experiments/trial_json.h"
#include "experiments/validation.h"
#include "sim/check.h"
#include "sim/file_io.h"
#include "sim/json_fields.h"
#include "sim/json_text.h"
#include "sim/json_value.h"
#include "sim/placement.h"
#include "sim/printable.h"
#include "sim/simulator.h"

namespace emplace {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kTrialKey = "trial.json";
constexpr std::chrono::seconds kProgressEvery(1);

std::string In(const std::string& folder, std::string_view name) { return (fs::path(folder) / name).string(); }

void WriteJson(const std::string& path, const JsonValue& value) {
  std::string text;
  AppendJson(&text, value);
  text.push_back('\n');
  WriteFile(path, [&text](std::ostream& out) { out << text; });
}

JsonValue ReadJson(const std::string& path) {
  try {
    return ParseJson(ReadWholeFile(path));
  } catch (const InputError& error) {
    throw std::string_view(error.what()).starts_with(path) ? error : error.In(path);
  }
}

void MakeFolder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) throw InputError(path, "cannot be made (" + error.message() + ")");
}

void Remove(const std::string& path) {
  std::error_code ignored;
  fs::remove(path, ignored);
}

// Whether the process that was writing NAME.PID.N.tmp (WriteFile) is gone.
bool IsLeftBehind(const fs::path& file) {
  if (file.extension() != ".tmp") return false;
  const std::string pid = file.stem().stem().extension().string();  // ".PID"
  int number = 0;
  const auto [rest, error] =
      std::from_chars(pid.data() + std::min<std::size_t>(1, pid.size()), pid.data() + pid.size(), number);
  if (error != std::errc() || rest != pid.data() + pid.size() || number <= 0) return false;
  return ::kill(number, 0) != 0 && errno == ESRCH;
}

// What processes that were killed in the middle of writing have left, not of those that may be writing now. Who holds a
// trial's lock is the only one to write there, but for spec.json. (A dead process that nobody waits for looks alive.)
void RemoveHalfFiles(const std::string& folder, bool locked) {
  std::error_code ignored;
  std::vector<std::string> left;
  for (const auto& entry : fs::directory_iterator(folder, ignored)) {
    const fs::path& file = entry.path();
    const bool ours = locked && file.extension() == ".tmp" && !file.filename().string().starts_with("spec.json.");
    if (ours || IsLeftBehind(file)) left.push_back(file.string());
  }
  for (const std::string& path : left) Remove(path);
}

// A lock that ends with its process, however that ends.
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

// progress.jsonl: a line is one write, so that no half line stays behind.
class ProgressLog {
 public:
  explicit ProgressLog(const std::string& folder)
      : fd_(::open(In(folder, "progress.jsonl").c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666)) {}
  ~ProgressLog() {
    if (fd_ >= 0) ::close(fd_);
  }
  ProgressLog(const ProgressLog&) = delete;
  ProgressLog& operator=(const ProgressLog&) = delete;

  void Show(const TrialProgress& progress) {
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
    // For people who look on: a trial does not fail for it.
    if (fd_ >= 0 && ::write(fd_, text.data(), text.size()) < 0) return;
  }

 private:
  int fd_;
  std::chrono::steady_clock::time_point next_;
};

// A checkpoint that cannot be gone on from (of an earlier version, or damaged) is given up: the trial starts again.
TrialResult RunFromCheckpoint(const TrialSpec& spec, const std::string& folder) {
  ProgressLog log(folder);
  bool began = false;
  const auto show = [&](const TrialProgress& progress) {
    began = true;
    log.Show(progress);
  };
  try {
    return RunTrial(spec, show);
  } catch (const InputError& error) {
    const bool of_checkpoint = std::string_view(error.what()).starts_with(Printable(spec.checkpoint) + ": ");
    if (!of_checkpoint || began || !fs::exists(spec.checkpoint)) throw;
    std::fputs(fmt::format("{}; starting again\n", error.what()).c_str(), stderr);
    Remove(spec.checkpoint);
    return RunTrial(spec, show);
  }
}

// With real devices: they answer for all of it, for some of it, or check the best.
TrialResult RunOnHardware(TrialSpec spec, const HardwareChoice& choice, const std::string& folder,
                          MeasuredSteps* measured) {
  const TrialProblem& problem = spec.problem;
  const Simulator simulator(problem.graph, problem.cluster, problem.costs,
                            {.engine = spec.engine, .peak_memory = true, .start_times = true});
  const ClusterHardware hardware(problem.graph, problem.cluster, choice.options);
  RewardEvaluator evaluator(simulator, hardware.runner(), choice);
  spec.evaluator = &evaluator;
  spec.evaluator_state = &evaluator;
  TrialResult result = RunFromCheckpoint(spec, folder);
  measured->checks = evaluator.checks();
  if (result.best) {
    const HardwareStep best = hardware.runner().Measure(*result.best);
    if (best.result.fits_memory) measured->best_micros = best.result.step_time_micros;
    if (!best.alone_micros.empty()) {
      measured->interleaved_micros = SimulateWithTimes(problem.graph, problem.cluster, problem.costs,
                                                       simulator.options(), best.alone_micros, *result.best)
                                         .micros;
    }
  }
  return result;
}

void RunLocked(const std::string& folder) {
  RemoveHalfFiles(folder, /*locked=*/true);
  Remove(In(folder, "error.txt"));
  const JsonValue spec_json = ReadJson(In(folder, "spec.json"));
  TrialSpec spec = LoadTrialSpec(spec_json);
  spec.checkpoint = In(folder, "checkpoint.bin");
  const HardwareChoice choice = LoadHardwareChoice(spec_json);
  std::optional<MeasuredSteps> measured;
  TrialResult result;
  if (choice.NeedsHardware()) {
    RefuseSeveralGraphs(!spec.also.empty(), !spec.transfer.empty());
    result = RunOnHardware(spec, choice, folder, &measured.emplace());
  } else {
    result = RunFromCheckpoint(spec, folder);
  }
  if (result.best) {
    WriteFile(In(folder, "best_placement.json"),
              [&](std::ostream& out) { WritePlacement(out, *result.best, spec.problem.graph, spec.problem.cluster); });
  }
  if (!result.policy.empty()) {
    WriteFile(In(folder, "policy.bin"), [&result](std::ostream& out) { out << result.policy; });
  }
  WriteJson(In(folder, "timing.json"), TimingToJson(result, measured));
  WriteJson(In(folder, kTrialKey), TrialToJson(fs::path(folder).filename().string(), spec_json, spec, result));
}

// The folder without a slash behind it: its last part is the trial's id.
std::string Normal(const std::string& folder) {
  const fs::path path = fs::absolute(folder).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).string();
}

}  // namespace

std::string PrepareTrialFolder(const std::string& experiment_folder, const PlannedTrial& trial) {
  std::string folder = In(experiment_folder, trial.id);
  MakeFolder(folder);
  RemoveHalfFiles(folder, /*locked=*/false);
  const std::string spec = In(folder, "spec.json");
  if (!fs::exists(spec)) WriteJson(spec, trial.spec);
  return folder;
}

void WriteExperimentFile(const std::string& experiment_folder, const ExperimentSpec& experiment) {
  MakeFolder(experiment_folder);
  RemoveHalfFiles(experiment_folder, /*locked=*/false);
  JsonObject json;
  for (const JsonMember& member : *experiment.root.As<JsonObject>()) {
    if (member.key == "question") continue;
    if (member.key == "published") {
      AddMember(&json, member.key, experiment.published);  // a file can be found from anywhere
      continue;
    }
    json.push_back(member);
    if (member.key == "name") AddMember(&json, "question", experiment.question);
  }
  WriteJson(In(experiment_folder, "experiment.json"), {std::move(json)});
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
  // InputError makes it one line.
  const std::string text = InputError("", line).what();
  WriteFile(In(trial_folder, "error.txt"), [&text](std::ostream& out) { out << text << '\n'; });
}

std::string ReadTrialError(const std::string& trial_folder) {
  if (!fs::exists(In(trial_folder, "error.txt"))) return "";
  const std::string text = ReadWholeFile(In(trial_folder, "error.txt"));
  return text.substr(0, text.find('\n'));
}

TrialSummary SummariseTrial(const std::string& trial_folder) {
  TrialSummary summary;
  const std::string path = In(trial_folder, kTrialKey);
  const JsonValue trial = ReadJson(path);
  const JsonValue* const graphs = ValueAt(trial, "graphs");
  if (graphs == nullptr || graphs->As<JsonList>() == nullptr) throw InputError(path, "has no graphs (a list)");
  const auto number = [](const JsonValue& of, std::string_view key) -> std::optional<double> {
    const JsonValue* value = ValueAt(of, key);
    if (value == nullptr || value->As<std::monostate>() != nullptr) return std::nullopt;
    return JsonNode(*value).Number(-1e300, 1e300);
  };
  double sum = 0;
  double count = 0;
  for (const JsonValue& graph : *graphs->As<JsonList>()) {
    if (&graph == &graphs->As<JsonList>()->front()) summary.best_micros = number(graph, "best_step_time_us");
    const auto improvement = number(graph, "improvement_percent");
    sum += improvement.value_or(0);
    count += improvement ? 1 : 0;
  }
  if (count > 0) summary.improvement_percent = sum / count;
  const std::string timing = In(trial_folder, "timing.json");
  if (fs::exists(timing)) summary.wall_seconds = number(ReadJson(timing), "wall_seconds").value_or(0);
  return summary;
}

}  // namespace emplace
