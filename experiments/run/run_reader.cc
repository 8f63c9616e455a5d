#include "experiments/run/run_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <initializer_list>

#include "experiments/run/checked_json.h"
#include "experiments/spec/experiment_fields.h"
#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "sim/base/json_fields.h"
#include "sim/base/json_text.h"

namespace emplace {
namespace {

namespace fs = std::filesystem;

constexpr double kMost = 1e18;

// What to do about a file that its checksum does not fit.
constexpr std::string_view kRunAgain = "without trial.json and timing.json the same sweep runs the trial again";
constexpr std::string_view kSweepAgain = "the same sweep writes it again";

using Keys = std::initializer_list<std::string_view>;

// The members of an object: those of `keys`, no others, and all but those of `optional`. What may be null is absent
// then.
class RunFields {
 public:
  RunFields(const JsonNode& node, Keys keys, Keys optional = {}) : fields_(node, keys) {
    for (const std::string_view key : keys) {
      if (!fields_.Find(key) && std::find(optional.begin(), optional.end(), key) == optional.end()) {
        throw InputError(PlaceOfKey(node.Place(), key), "is missing");
      }
    }
  }

  std::optional<JsonNode> Find(std::string_view key) const { return fields_.Find(key); }
  JsonNode Get(std::string_view key) const { return *fields_.Find(key); }
  double Number(std::string_view key) const { return Get(key).Number(0, kMost); }
  std::optional<double> FindNumber(std::string_view key, double low = 0) const {
    const auto field = Find(key);
    if (!field || field->value().As<std::monostate>() != nullptr) return std::nullopt;
    return field->Number(low, kMost);
  }
  std::string Text(std::string_view key) const { return Get(key).Text(); }
  std::string FindText(std::string_view key) const {
    const auto field = Find(key);
    return field ? field->Text() : "";
  }
  // Calls `read` on each element of the list; on none if there is no list.
  template <typename Read>
  void EachOf(std::string_view key, const Read& read) const {
    const auto field = Find(key);
    if (!field) return;
    const JsonList& list = field->List();
    for (std::size_t i = 0; i < list.size(); ++i) read(JsonNode(*field, i, list[i]));
  }

 private:
  JsonFields fields_;
};

// `read` on a file's root; what it throws is said to be in the file.
template <typename Read>
auto ReadFile(const fs::path& path, const Read& read) {
  const JsonValue root = ReadJsonFile(path.string());
  try {
    return read(JsonNode(root));
  } catch (const InputError& error) {
    throw error.In(path.string());
  }
}

// A text in the spec; "" if there is none.
std::string SpecText(const JsonNode& spec, std::string_view path) {
  const JsonValue* const value = FindPath(spec.value(), path);
  return value == nullptr ? "" : JsonNode(spec, path, *value).Text();
}

std::pair<double, double> ReadTracePoint(const JsonNode& node) {
  const JsonList& pair = node.List("[evaluations, step time]");
  if (pair.size() != 2) node.Refuse("[evaluations, step time]");
  return {JsonNode(node, 0, pair[0]).Number(0, kMost), JsonNode(node, 1, pair[1]).Number(0, kMost)};
}

EpisodeTrace ReadEpisode(const JsonNode& node) {
  const RunFields fields(
      node, {"episode", "evaluations", "argmax", "step_time_us", "best_step_time_us", "mean_step_time_us", "entropy"});
  EpisodeTrace episode;
  episode.episode = fields.Number("episode");
  episode.argmax = fields.Get("argmax").Flag();
  episode.entropy = fields.FindNumber("entropy");
  episode.final_micros = fields.FindNumber("step_time_us");
  episode.evaluations = fields.Number("evaluations");
  episode.mean_micros = fields.FindNumber("mean_step_time_us");
  return episode;
}

// What a graph that was searched and one that a policy was applied to have in common.
template <typename Record>
Record ReadPlaced(const RunFields& fields) {
  Record record;
  record.graph = fields.Text("graph");
  record.num_devices = fields.Number("num_devices");
  record.single_device_micros = fields.FindNumber("single_device_step_time_us");
  record.start_micros = fields.FindNumber("start_step_time_us");
  record.best_micros = fields.FindNumber("best_step_time_us");
  record.improvement = fields.FindNumber("improvement_percent", -kMost);
  record.evaluations = fields.Number("evaluations");
  return record;
}

GraphRecord ReadGraphRecord(const JsonNode& node) {
  const RunFields fields(
      node,
      {"graph", "num_ops", "num_groups", "num_devices", "single_device_step_time_us", "start_step_time_us",
       "best_step_time_us", "improvement_percent", "lower_bound_us", "evaluations", "fitting", "trace", "episodes"},
      {"single_device_step_time_us", "episodes"});
  auto record = ReadPlaced<GraphRecord>(fields);
  record.num_ops = fields.Number("num_ops");
  record.num_groups = fields.Number("num_groups");
  record.lower_bound_micros = fields.Number("lower_bound_us");
  fields.Number("fitting");
  fields.EachOf("trace", [&](const JsonNode& point) { record.trace.push_back(ReadTracePoint(point)); });
  fields.EachOf("episodes", [&](const JsonNode& episode) { record.episodes.push_back(ReadEpisode(episode)); });
  return record;
}

TransferRecord ReadTransfer(const JsonNode& node) {
  const RunFields fields(
      node,
      {"graph", "num_ops", "num_groups", "num_devices", "single_device_step_time_us", "start_step_time_us",
       "step_time_us", "best_step_time_us", "improvement_percent", "evaluations"},
      {"single_device_step_time_us"});
  auto record = ReadPlaced<TransferRecord>(fields);
  record.final_micros = fields.FindNumber("step_time_us");
  return record;
}

void ReadMeasured(const JsonNode& node, TimingRecord* timing) {
  const RunFields fields(node, {"checks", "best_step_time_us", "best_interleaved_us"}, {"best_interleaved_us"});
  timing->measured_best_micros = fields.FindNumber("best_step_time_us");
  timing->interleaved_micros = fields.FindNumber("best_interleaved_us");
  fields.EachOf("checks", [&](const JsonNode& element) {
    const RunFields check(element, {"evaluation", "simulated_us", "measured_us"});
    check.Number("evaluation");
    const double simulated = check.Number("simulated_us");
    if (const auto micros = check.FindNumber("measured_us")) timing->checks.push_back({simulated, *micros});
  });
}

// Whether a file must have one: version 1 or 2. Only version 2 has a checksum, so that no damaged byte makes a file one
// without.
bool HasChecksum(const JsonNode& root, std::string_view schema) {
  const int version = CheckSchema(root, schema, /*complete=*/true, /*newest=*/2);
  if (version == 1 && FindMember(root.value(), kChecksumKey) != nullptr)
    throw InputError(std::string(kChecksumKey), "is unknown in version 1 (version 2 has one)");
  return version > 1;
}

TimingRecord ReadTiming(const JsonNode& root) {
  const bool has_checksum = HasChecksum(root, "emplace.timing");
  const RunFields fields(root,
                         {"schema", "version", "policy_seconds", "simulator_seconds", "wall_seconds", "episodes",
                          "policy_seconds_per_episode", "hardware", kChecksumKey},
                         {"hardware", kChecksumKey});
  TimingRecord timing{.policy_seconds = fields.Number("policy_seconds"),
                      .policy_seconds_per_episode = fields.FindNumber("policy_seconds_per_episode"),
                      .simulator_seconds = fields.Number("simulator_seconds"),
                      .wall_seconds = fields.Number("wall_seconds")};
  // Earlier versions took a search without episodes for one episode.
  if (fields.Number("episodes") == 0) timing.policy_seconds_per_episode.reset();
  if (const auto hardware = fields.Find("hardware")) ReadMeasured(*hardware, &timing);
  CheckChecksum(root, has_checksum, kRunAgain);
  return timing;
}

// Version 1 had no checksum: its spec alone is known to be what it was.
TrialRecord ReadTrial(const JsonNode& root) {
  const bool has_checksum = HasChecksum(root, "emplace.trial");
  const RunFields fields(root,
                         {"schema", "version", "experiment", "trial", "emplace", "revision", "spec", "graphs",
                          "transfer", "evaluations", "best_placement_fingerprint", kChecksumKey},
                         {"experiment", "transfer", "best_placement_fingerprint", kChecksumKey});
  TrialRecord trial;
  trial.id = fields.Text("trial");
  trial.version = fields.Text("emplace");
  trial.revision = fields.Text("revision");
  const JsonNode spec = fields.Get("spec");
  trial.label = SpecText(spec, "agent.label");
  if (trial.label.empty()) trial.label = SpecText(spec, "agent.name");
  if (trial.label.empty()) throw InputError("spec.agent.name", "is missing");
  const JsonValue* const seed = FindPath(spec.value(), "seed");
  if (seed == nullptr) throw InputError("spec.seed", "is missing");
  trial.seed = PlainText(*seed);
  trial.spec = spec.value();
  fields.EachOf("graphs", [&](const JsonNode& graph) { trial.graphs.push_back(ReadGraphRecord(graph)); });
  if (trial.graphs.empty()) fields.Get("graphs").Refuse("one entry for each graph");
  fields.EachOf("transfer", [&](const JsonNode& graph) { trial.transfers.push_back(ReadTransfer(graph)); });
  fields.Number("evaluations");
  if (const auto field = fields.Find("best_placement_fingerprint");
      field && field->value().As<std::monostate>() == nullptr) {
    trial.placement_fingerprint = field->Text();
  }
  CheckChecksum(root, has_checksum, kRunAgain);
  if (trial.id != TrialId(trial.spec)) {
    throw InputError("spec",
                     fmt::format("is that of trial {}, not of {} ({})", TrialId(trial.spec), trial.id, kRunAgain));
  }
  return trial;
}

// spec.json is what the folder is named after.
JsonValue ReadSpecFile(const fs::path& folder) {
  return ReadFile(folder / "spec.json", [&folder](const JsonNode& root) {
    CheckTrialId(root.value(), folder.filename().string());
    return root.value();
  });
}

UnfinishedTrial DescribeUnfinished(const fs::path& folder) {
  UnfinishedTrial trial;
  trial.id = folder.filename().string();
  try {
    trial.spec = ReadSpecFile(folder);
    trial.what = DescribeSpec(trial.spec);
  } catch (const InputError&) {
    // Half a trial may have half a spec: its id says which one it is.
  }
  if (fs::exists(folder / "error.txt")) {
    const std::string text = ReadWholeFile((folder / "error.txt").string());
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

ExperimentRuns ReadExperiment(const fs::path& folder) {
  ExperimentRuns runs;
  runs.name = folder.filename().string();
  ReadFile(folder / "experiment.json", [&runs](const JsonNode& root) {
    ReadExperimentFile(root, &runs);
    return 0;
  });
  for (const fs::path& path : FoldersIn(folder)) {
    if (fs::exists(path / "trial.json")) {
      runs.trials.push_back(ReadFinishedTrial(path.string()));
    } else if (fs::exists(path / "spec.json") || fs::exists(path / "error.txt")) {
      runs.unfinished.push_back(DescribeUnfinished(path));
    }
  }
  return runs;
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
  }
  if (const JsonValue* index = FindMember(graph, "index")) text += " " + PlainText(*index);
  return text;
}

}  // namespace

TrialRecord ReadFinishedTrial(const std::string& folder) {
  const fs::path path = fs::absolute(folder).lexically_normal();
  const fs::path named = path.has_filename() ? path : path.parent_path();
  TrialRecord trial = ReadFile(fs::path(folder) / "trial.json", [&named](const JsonNode& root) {
    TrialRecord record = ReadTrial(root);
    if (record.id != named.filename().string()) {
      throw InputError("trial", fmt::format("is {}, but the folder {}", record.id, named.filename().string()));
    }
    return record;
  });
  trial.folder = folder;
  if (fs::exists(named / "spec.json")) ReadSpecFile(named);
  if (fs::exists(named / "timing.json")) trial.timing = ReadFile(fs::path(folder) / "timing.json", ReadTiming);
  return trial;
}

std::vector<ExperimentRuns> ReadRuns(const std::string& path) {
  if (!fs::is_directory(path)) throw InputError(path, "there is no such folder");
  fs::path folder = fs::path(path).lexically_normal();
  if (!folder.has_filename()) folder = folder.parent_path();  // "runs/" is "runs"
  std::vector<ExperimentRuns> experiments;
  if (IsExperiment(folder)) {
    experiments.push_back(ReadExperiment(folder));
  } else {
    for (const fs::path& inner : FoldersIn(folder)) {
      if (IsExperiment(inner)) experiments.push_back(ReadExperiment(inner));
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

}  // namespace emplace
