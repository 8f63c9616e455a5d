#include "experiments/run/run_folder.h"

#include <fmt/format.h>

#include <chrono>
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <memory>
#include <new>
#include <ostream>
#include <sstream>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "agents/named_placement.h"
#include "agents/search.h"
#include "experiments/plan/checked_json.h"
#include "experiments/plan/hardware_choice.h"
#include "experiments/plan/problem.h"
#include "experiments/run/hardware_reward.h"
#include "experiments/run/line_file.h"
#include "experiments/run/run_reader.h"
#include "experiments/run/trial_crashes.h"
#include "experiments/run/trial_json.h"
#include "experiments/validation/periodic_validation.h"
#include "experiments/validation/validation.h"
#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "sim/base/fingerprint.h"
#include "sim/base/json_build.h"
#include "sim/base/json_text.h"
#include "sim/base/json_value.h"
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
  if (!error) return;
  const WriteError failed(path, error.value());
  if (failed.IsOfFileSystem()) throw failed;
  throw InputError(path, "cannot be created (" + error.message() + ")");
}

void Remove(const std::string& path) {
  std::error_code ignored;
  fs::remove(path, ignored);
}

// The last checkpoint of a simulated search that ends so soon after the one before is not synced: its result will be.
constexpr double kShortSearchSeconds = 1;

// Another process has taken the claim over.
struct ClaimLost : std::exception {};

// progress.jsonl.
class ProgressLog {
 public:
  explicit ProgressLog(const std::string& folder) : file_(In(folder, "progress.jsonl")) {}

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
    try {
      file_.Append(JsonText({std::move(line)}));
    } catch (const WriteError&) {
      // The log is informational, so a write error does not fail the trial.
    }
  }

 private:
  LineFile file_;
  std::chrono::steady_clock::time_point next_;
};

// Deletes an unusable checkpoint (of an earlier version, or damaged) and starts the trial again.
agents::SearchResult RunFromCheckpoint(const agents::SearchSpec& spec, const std::string& folder, TrialClaim* claim) {
  ProgressLog log(folder);
  const auto run = [&] {
    return agents::RunSearch(spec, [&](const agents::SearchProgress& progress) {
      if (!claim->Held()) throw ClaimLost();
      log.Show(progress);
    });
  };
  try {
    return run();
  } catch (const agents::UnusableCheckpoint& error) {
    std::fputs(fmt::format("{}; starting again\n", error.what()).c_str(), stderr);
    Remove(spec.checkpoint);
    return run();
  }
}

void AddMeasurements(const PeriodicValidation& validation, MeasuredSteps* measured) {
  for (const ValidationMeasurement& one : validation.measurements()) {
    measured->checks.push_back({.evaluation = one.evaluations,
                                .simulated_micros = one.predicted_micros,
                                .measured_micros = one.measured_micros});
  }
  const ValidationSummaryOfSearch summary = validation.Summarise();
  measured->hardware_seconds = summary.hardware_seconds;
  measured->error_before = summary.error_before;
  measured->error_after = summary.error_after;
}

// Runs a trial with real devices, which evaluate all or some placements, or check the best.
agents::SearchResult RunOnHardware(agents::SearchSpec spec, const std::string& folder, TrialClaim* claim,
                                   MeasuredSteps* measured) {
  const agents::SearchProblem& problem = spec.problem;
  const Simulator simulator(problem.graph, problem.cluster, problem.costs,
                            {.engine = spec.engine, .peak_memory = true, .start_times = true});
  const ClusterHardware hardware(problem.graph, problem.cluster, HardwareOptionsOf(spec));
  RewardEvaluator evaluator(simulator, hardware.runner(), spec);
  std::optional<PeriodicValidation> validation;
  if (spec.Validates()) {
    validation.emplace(problem.graph, problem.cluster, problem.costs, simulator.options(), spec.validate_every,
                       RealHardware(hardware.runner()));
    spec.validation = &*validation;
  } else {
    spec.evaluator = &evaluator;
    spec.evaluator_state = &evaluator;
  }
  agents::SearchResult result = RunFromCheckpoint(spec, folder, claim);
  measured->checks = evaluator.checks();
  if (validation) AddMeasurements(*validation, measured);
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

std::string TextOfFile(const JsonValue& json) { return JsonText(json) + '\n'; }

// A file of a result that the seed determines.
struct ResultFile {
  std::string_view name;
  std::string content;  // "": there is none
};

// How the files of another process differ from these, a line each; "" if they are the same.
std::string Differences(const std::string& folder, const std::vector<ResultFile>& files) {
  std::string differences;
  for (const auto& [name, content] : files) {
    const std::string path = In(folder, name);
    const std::string other = fs::exists(path) ? ReadWholeFile(path, InputKind::kTrialFile) : "";
    if (other == content) continue;
    differences += fmt::format("{}: {} here ({} bytes), {} of another process ({} bytes)\n", name,
                               FingerprintText(content), content.size(), FingerprintText(other), other.size());
  }
  return differences;
}

// Writes the result; the last file, trial.json, appears last. If another process has published one meanwhile, it must
// be the same.
TrialOutcome Publish(const std::string& folder, const std::vector<ResultFile>& files, const JsonValue& timing) {
  if (IsFinished(folder)) {
    const std::string differences = Differences(folder, files);
    if (differences.empty()) return TrialOutcome::kDone;
    WriteFiles({{.path = In(folder, kDifferencesFile),
                 .write = [&](std::ostream& out) { out << differences; },
                 .only_regular = true}});
    return TrialOutcome::kDiffers;
  }
  const std::string timing_text = TextOfFile(timing);
  const auto writing = [](const std::string& text) { return [&text](std::ostream& out) { out << text; }; };
  std::vector<FileToWrite> written = {
      {.path = In(folder, "timing.json"), .write = writing(timing_text), .only_regular = true}};
  for (const auto& [name, content] : files) {
    if (!content.empty())
      written.push_back({.path = In(folder, name), .write = writing(content), .only_regular = true});
  }
  WriteFiles(written);
  return TrialOutcome::kDone;
}

TrialOutcome RunClaimed(const std::string& folder, const TrialRunOptions& options, TrialClaim* claim) {
  RemoveLeftovers(folder);
  Remove(In(folder, "error.txt"));
  const JsonValue spec_json = ReadSpec(folder);
  const TrialChoice choice = ReadTrialChoice(spec_json);
  agents::SearchSpec spec = agents::WithNamedPlacements(LoadSearchSpec(choice));
  spec.checkpoint = In(folder, "checkpoint.bin");
  spec.interrupt = options.interrupt;
  if (!choice.NeedsHardware()) spec.sync_end_after_seconds = kShortSearchSeconds;
  std::optional<MeasuredSteps> measured;
  agents::SearchResult result;
  if (choice.NeedsHardware()) {
    RefuseSeveralGraphs(!spec.also.empty(), !spec.transfer.empty());
    result = RunOnHardware(spec, folder, claim, &measured.emplace());
  } else {
    result = RunFromCheckpoint(spec, folder, claim);
    result.single_ops_micros = agents::MicrosOfSingleOps(spec, result, [claim](const agents::SearchProgress&) {
      if (!claim->Held()) throw ClaimLost();
    });
  }
  std::string placement;
  if (result.best) {
    std::ostringstream text;
    WritePlacement(text, *result.best, spec.problem.graph, spec.problem.cluster);
    placement = std::move(text).str();
  }
  const std::string trial =
      TextOfFile(TrialToJson(fs::path(folder).filename().string(), spec_json, spec, result, placement));
  // Two runs on real devices measure different times, so that they are not compared.
  if (!claim->Held() && (choice.NeedsHardware() || !IsFinished(folder))) throw ClaimLost();
  // Nothing shall disturb the next trial on real devices.
  if (options.publishing && !choice.NeedsHardware()) options.publishing();
  return Publish(folder, {{"best_placement.json", placement}, {"policy.bin", result.policy}, {kTrialKey, trial}},
                 TimingToJson(result, measured));
}

// A process that was lost while it ran the trial counts; too many fail the trial.
void CountLoss(const std::string& folder, const TrialClaim& claim) {
  if (const auto& holder = claim.taken_from(); holder && !holder->instance.empty()) {
    RecordCrash(folder, {.host = holder->host, .lost = true, .how = "stopped responding", .log = ""});
  }
}

// The absolute path without a trailing slash, as its last part is the trial's id.
std::string Normal(const std::string& folder) {
  const fs::path path = fs::absolute(folder).lexically_normal();
  return (path.has_filename() ? path : path.parent_path()).string();
}

}  // namespace

void PrepareTrialFolder(const std::string& trial_folder, std::string_view spec) {
  MakeFolder(trial_folder);
  RemoveLeftovers(trial_folder);
  const std::string path = In(trial_folder, "spec.json");
  if (fs::exists(path)) {
    try {
      ReadSpec(trial_folder);
      return;
    } catch (const InputError& error) {
      fmt::print(stderr, "{}; written again\n", error.what());
    }
  }
  WriteFiles({{.path = path,
               .write = [spec](std::ostream& out) { out << spec << '\n'; },
               .durable = false,
               .only_regular = true}});
}

std::string PrepareTrialFolder(const std::string& experiment_folder, const PlannedTrial& trial) {
  std::string folder = In(experiment_folder, trial.id);
  PrepareTrialFolder(folder, JsonText(trial.spec));
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

TrialOutcome RunTrialFolder(const std::string& trial_folder, const TrialRunOptions& options) {
  const std::string folder = Normal(trial_folder);
  const std::unique_ptr<TrialClaim> claim = TrialClaim::Take(folder, options.lease);
  if (!claim) return TrialOutcome::kBusy;
  if (IsFinished(folder)) return TrialOutcome::kDone;
  std::string error;
  try {
    CountLoss(folder, *claim);
    error = CrashVerdict(ReadCrashes(folder));
    if (error.empty()) return RunClaimed(folder, options, claim.get());
  } catch (const ClaimLost&) {
    return TrialOutcome::kLost;
  } catch (const agents::SearchInterrupted&) {
    return TrialOutcome::kInterrupted;
  } catch (const WriteError& failed) {
    if (failed.IsOfFileSystem()) throw;
    error = failed.what();
  } catch (const std::bad_alloc&) {
    error = "out of memory";
  } catch (const std::exception& failed) {
    error = failed.what();
  }
  if (!claim->Held()) return TrialOutcome::kLost;
  WriteTrialError(folder, error);
  return TrialOutcome::kFailed;
}

void WriteTrialError(const std::string& trial_folder, const std::string& line) {
  // InputError converts it to a single line.
  const std::string text = InputError("", line).what();
  WriteFiles({{.path = In(trial_folder, "error.txt"),
               .write = [&text](std::ostream& out) { out << text << '\n'; },
               .only_regular = true}});
}

void ForgetTrialError(const std::string& trial_folder) {
  Remove(In(trial_folder, "error.txt"));
  Remove(In(trial_folder, "crashes.jsonl"));
}

std::string ReadTrialError(const std::string& trial_folder) {
  if (!fs::exists(In(trial_folder, "error.txt"))) return "";
  const std::string text = ReadWholeFile(In(trial_folder, "error.txt"), InputKind::kTrialFile);
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
    if (graph.beaten_by_one_device_micros) summary.worse_than_one_device = true;
    sum += improvement.value_or(0);
    count += improvement ? 1 : 0;
  }
  if (count > 0) summary.improvement_percent = sum / count;
  if (trial.timing) summary.wall_seconds = trial.timing->wall_seconds;
  return summary;
}

}  // namespace emplace::experiments
