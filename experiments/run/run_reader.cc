#include "experiments/run/run_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <unordered_set>
#include <utility>

#include "experiments/plan/checked_json.h"
#include "experiments/plan/experiment_fields.h"
#include "experiments/run/plan_file.h"
#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "sim/base/json_fields.h"
#include "sim/base/json_text.h"

namespace emplace::experiments {
namespace {

namespace fs = std::filesystem;

// Advice for a file whose checksum does not match.
constexpr std::string_view kSweepAgain = "the same sweep writes it again";

// Calls `read` on a file's root; errors name the file.
template <typename Read>
auto ReadFile(const fs::path& path, const Read& read) {
  const JsonValue root = ReadJsonFile(path.string());
  try {
    return read(JsonNode(root));
  } catch (const InputError& error) {
    throw error.In(path.string());
  }
}

// spec.json must match the folder's name.
JsonValue ReadSpecFile(const fs::path& folder) {
  return ReadFile(folder / "spec.json", [&folder](const JsonNode& root) {
    CheckTrialId(root.value(), folder.filename().string());
    return root.value();
  });
}

UnfinishedTrial DescribeUnfinished(const fs::path& folder) {
  UnfinishedTrial trial;
  trial.id = folder.filename().string();
  trial.folder = folder.string();
  try {
    trial.spec = ReadSpecFile(folder);
    trial.what = DescribeSpec(trial.spec);
  } catch (const InputError&) {
    // An interrupted trial may have an incomplete spec; its id still identifies it.
  }
  if (fs::exists(folder / "error.txt")) {
    const std::string text = ReadWholeFile((folder / "error.txt").string(), InputKind::kTrialFile);
    trial.error = text.substr(0, text.find('\n'));
  }
  return trial;
}

void ReadExperimentFile(const JsonNode& root, ExperimentRuns* runs) {
  CheckSchema(root, "emplace.experiment");
  const JsonFields fields = ExperimentFields(root);
  runs->name = fields.Get("name", "the experiment's").NonEmptyText();
  if (const auto field = fields.Find("question")) runs->question = field->Text();
  if (const auto field = fields.Find("published")) runs->published = field->Text();
  if (const auto field = fields.Find("metrics")) {
    for (std::size_t i = 0; i < field->List().size(); ++i) {
      runs->metrics.push_back(JsonNode(*field, i, field->List()[i]).NonEmptyText());
    }
  }
  CheckChecksum(root, /*required=*/false, kSweepAgain);
}

std::vector<fs::path> FoldersIn(const fs::path& folder) {
  std::vector<fs::path> folders;
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    if (entry->is_directory()) folders.push_back(entry->path());
  }
  if (error) throw InputError(folder.string(), "cannot be read (" + error.message() + ")");
  std::sort(folders.begin(), folders.end());
  return folders;
}

// Trials of the plan that no worker has begun, and that have no folder therefore.
void AddPlanned(const fs::path& folder, const std::unordered_set<std::string>& seen, ExperimentRuns* runs) {
  if (!HasPlan(folder.string())) return;
  const PlanFile plan(folder.string());
  for (const PlanFile::Trial& trial : plan.trials()) {
    if (seen.contains(trial.id())) continue;
    JsonValue spec = ParseJson(trial.spec);
    std::string what = DescribeSpec(spec);
    runs->unfinished.push_back({.id = trial.id(), .what = std::move(what), .error = {}, .spec = std::move(spec)});
  }
}

bool IsExperiment(const fs::path& folder) { return fs::exists(folder / "experiment.json"); }

// The list at a path; null if there is none.
const JsonList* FindList(const JsonValue& root, std::string_view path) {
  const JsonValue* value = FindPath(root, path);
  return value == nullptr ? nullptr : value->As<JsonList>();
}

std::string DescribeGraph(const JsonValue& graph) {
  std::string text;
  for (const std::string_view key : {"dataset", "file", "model"}) {
    if (const JsonValue* value = FindMember(graph, key)) text = PlainText(*value);
    if (key == "file") text = fs::path(text).filename().string();
  }
  if (const JsonValue* index = FindMember(graph, "index")) text += " " + PlainText(*index);
  return text;
}

}  // namespace

TrialRecord ReadFinishedTrial(const std::string& folder) {
  const fs::path path = fs::absolute(folder).lexically_normal();
  const fs::path named = path.has_filename() ? path : path.parent_path();
  const std::string file = (fs::path(folder) / "trial.json").string();
  const auto parsed = [&file] {
    try {
      return ReadJsonFile(file);
    } catch (const InputError& error) {
      throw InputError("", fmt::format("{} ({})", error.what(), kRunAgain));
    }
  };
  const JsonValue root = parsed();
  TrialRecord trial = WithLocation(file, [&] {
    TrialRecord record = ReadTrialRecord(JsonNode(root));
    if (record.id != named.filename().string()) {
      throw InputError("trial", fmt::format("is {}, but the folder {}", record.id, named.filename().string()));
    }
    return record;
  });
  trial.folder = folder;
  if (fs::exists(named / "spec.json")) ReadSpecFile(named);
  if (fs::exists(named / "timing.json")) trial.timing = ReadFile(fs::path(folder) / "timing.json", ReadTimingRecord);
  return trial;
}

ExperimentRuns ReadExperiment(const std::string& experiment_folder) {
  const fs::path folder(experiment_folder);
  ExperimentRuns runs;
  runs.name = folder.filename().string();
  ReadFile(folder / "experiment.json", [&runs](const JsonNode& root) {
    ReadExperimentFile(root, &runs);
    return 0;
  });
  std::unordered_set<std::string> seen;
  for (const std::string& name : ListTrialFolders(experiment_folder)) {
    const fs::path path = folder / name;
    const bool finished = fs::exists(path / "trial.json");
    if (!finished && !fs::exists(path / "spec.json") && !fs::exists(path / "error.txt")) continue;
    if (!seen.insert(path.filename().string()).second) continue;
    if (finished) {
      runs.trials.push_back(ReadFinishedTrial(path.string()));
    } else {
      runs.unfinished.push_back(DescribeUnfinished(path));
    }
  }
  AddPlanned(folder, seen, &runs);
  const auto by_id = [](const auto& a, const auto& b) { return a.id < b.id; };
  std::stable_sort(runs.trials.begin(), runs.trials.end(), by_id);
  std::stable_sort(runs.unfinished.begin(), runs.unfinished.end(), by_id);
  return runs;
}

void CheckIsRunsFolder(const std::string& path) {
  if (!fs::exists(path)) throw InputError(path, "there is no such folder");
  if (!fs::is_directory(path)) throw InputError(path, "is not a folder (a folder that `emplace sweep` wrote)");
}

std::vector<ExperimentRuns> ReadRuns(const std::string& path) {
  CheckIsRunsFolder(path);
  fs::path folder = fs::path(path).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();  // "runs/" becomes "runs"
  std::vector<ExperimentRuns> experiments;
  if (IsExperiment(folder)) {
    experiments.push_back(ReadExperiment(folder.string()));
  } else {
    for (const fs::path& inner : FoldersIn(folder)) {
      if (IsExperiment(inner)) experiments.push_back(ReadExperiment(inner.string()));
    }
  }
  if (experiments.empty()) {
    throw InputError(path, "holds no experiment (a folder that `emplace sweep` wrote: it has experiment.json)");
  }
  if (std::all_of(experiments.begin(), experiments.end(), [](const auto& runs) { return runs.trials.empty(); })) {
    throw InputError(path, "no trial is finished (a folder with a trial.json)");
  }
  return experiments;
}

std::optional<std::string> UnfinishedTrial::label() const {
  const JsonValue* const label = FindPath(spec, "agent.label");
  return label != nullptr ? std::optional(PlainText(*label)) : std::nullopt;
}

std::vector<TrialRecord> WithMissingTrials(const ExperimentRuns& runs) {
  std::vector<TrialRecord> trials = runs.trials;
  for (const UnfinishedTrial& unfinished : runs.unfinished) {
    const std::optional<std::string> label = unfinished.label();
    if (!label) continue;
    TrialRecord& trial = trials.emplace_back();
    trial.id = unfinished.id;
    trial.folder = unfinished.folder;
    trial.spec = unfinished.spec;
    trial.label = *label;
    if (const JsonValue* const seed = FindPath(unfinished.spec, "seed")) trial.seed = PlainText(*seed);
  }
  return trials;
}

std::string PlainText(const JsonValue& value) {
  if (const auto* text = value.As<std::string>()) return *text;
  std::string text;
  AppendJson(&text, value);
  return text;
}

std::string DescribeSpec(const JsonValue& spec) {
  std::vector<std::string> parts;
  const auto add = [&parts](const JsonValue* value, const char* format) {
    if (value != nullptr) parts.push_back(fmt::format(fmt::runtime(format), PlainText(*value)));
  };
  const JsonValue* label = FindPath(spec, "agent.label");
  add(label != nullptr ? label : FindPath(spec, "agent.name"), "{}");
  if (const JsonValue* graph = FindPath(spec, "graph")) parts.push_back(DescribeGraph(*graph));
  if (const JsonList* list = FindList(spec, "together")) {
    parts.push_back(fmt::format("{} graphs together", list->size()));
  }
  if (const JsonList* list = FindList(spec, "cluster.devices")) {
    parts.push_back(fmt::format("{} devices", list->size()));
  }
  add(FindPath(spec, "seed"), "seed {}");
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace emplace::experiments
