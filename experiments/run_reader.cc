#include "experiments/run_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "sim/check.h"
#include "sim/file_io.h"
#include "sim/json_fields.h"
#include "sim/json_text.h"

namespace emplace {
namespace {

namespace fs = std::filesystem;

constexpr double kMost = 1e18;

const JsonValue* FindMember(const JsonValue& value, std::string_view key) {
  const auto* members = value.As<JsonObject>();
  if (members == nullptr) return nullptr;
  const auto found = std::find_if(members->begin(), members->end(), [key](const auto& m) { return m.key == key; });
  return found == members->end() ? nullptr : &found->value;
}

// The members of an object, which may have others too. Null counts as absent.
class Members {
 public:
  explicit Members(const JsonNode& node) : node_(node) { node.Object(); }

  std::optional<JsonNode> Find(std::string_view key) const {
    const JsonValue* value = FindMember(node_.value(), key);
    if (value == nullptr || value->As<std::monostate>() != nullptr) return std::nullopt;
    return JsonNode(node_, key, *value);
  }
  JsonNode Get(std::string_view key, std::string_view allowed) const {
    if (const JsonValue* value = FindMember(node_.value(), key)) return {node_, key, *value};
    throw InputError(PlaceOfKey(node_.Place(), key), fmt::format("is missing ({})", allowed));
  }
  double Number(std::string_view key) const { return Get(key, "a number").Number(0, kMost); }
  std::optional<double> FindNumber(std::string_view key, double low = 0) const {
    const auto field = Find(key);
    if (!field) return std::nullopt;
    return field->Number(low, kMost);
  }
  std::string Text(std::string_view key) const { return Get(key, "a string").Text(); }
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
  const JsonNode& node_;
};

JsonValue ReadJsonFile(const fs::path& path) {
  const std::string text = ReadWholeFile(path.string());
  try {
    return ParseJson(text);
  } catch (const InputError& error) {
    throw error.In(path.string());
  }
}

// `read` on a file's root; what it throws is said to be in the file.
template <typename Read>
auto ReadFile(const fs::path& path, const Read& read) {
  const JsonValue root = ReadJsonFile(path);
  try {
    return read(JsonNode(root));
  } catch (const InputError& error) {
    throw error.In(path.string());
  }
}

std::pair<double, double> ReadTracePoint(const JsonNode& node) {
  const JsonList& pair = node.List("[evaluations, step time]");
  if (pair.size() != 2) node.Refuse("[evaluations, step time]");
  return {JsonNode(node, 0, pair[0]).Number(0, kMost), JsonNode(node, 1, pair[1]).Number(0, kMost)};
}

EpisodeTrace ReadEpisode(const JsonNode& node) {
  const Members members(node);
  EpisodeTrace episode;
  episode.episode = members.Number("episode");
  if (const auto field = members.Find("argmax")) episode.argmax = field->Flag();
  episode.entropy = members.FindNumber("entropy");
  episode.final_micros = members.FindNumber("step_time_us");
  episode.evaluations = members.FindNumber("evaluations").value_or(0);
  episode.mean_micros = members.FindNumber("mean_step_time_us");
  return episode;
}

// What a graph that was searched and one that a policy was applied to have in common.
template <typename Record>
Record ReadPlaced(const Members& members) {
  Record record;
  record.graph = members.Text("graph");
  record.num_devices = members.Number("num_devices");
  record.single_device_micros = members.FindNumber("single_device_step_time_us");
  record.start_micros = members.FindNumber("start_step_time_us");
  record.best_micros = members.FindNumber("best_step_time_us");
  record.improvement = members.FindNumber("improvement_percent", -kMost);
  record.evaluations = members.Number("evaluations");
  return record;
}

GraphRecord ReadGraph(const JsonNode& node) {
  const Members members(node);
  auto record = ReadPlaced<GraphRecord>(members);
  record.num_ops = members.Number("num_ops");
  record.num_groups = members.Number("num_groups");
  record.lower_bound_micros = members.Number("lower_bound_us");
  members.EachOf("trace", [&](const JsonNode& point) { record.trace.push_back(ReadTracePoint(point)); });
  members.EachOf("episodes", [&](const JsonNode& episode) { record.episodes.push_back(ReadEpisode(episode)); });
  return record;
}

TransferRecord ReadTransfer(const JsonNode& node) {
  const Members members(node);
  auto record = ReadPlaced<TransferRecord>(members);
  record.final_micros = members.FindNumber("step_time_us");
  return record;
}

TimingRecord ReadTiming(const JsonNode& root) {
  CheckSchema(root, "emplace.timing");
  const Members members(root);
  TimingRecord timing{.policy_seconds = members.Number("policy_seconds"),
                      .policy_seconds_per_episode = members.FindNumber("policy_seconds_per_episode"),
                      .simulator_seconds = members.Number("simulator_seconds"),
                      .wall_seconds = members.Number("wall_seconds")};
  // Earlier versions took a search without episodes for one episode.
  if (members.FindNumber("episodes") == 0) timing.policy_seconds_per_episode.reset();
  const auto hardware = members.Find("hardware");
  if (!hardware) return timing;
  const Members measured(*hardware);
  timing.measured_best_micros = measured.FindNumber("best_step_time_us");
  timing.interleaved_micros = measured.FindNumber("best_interleaved_us");
  measured.EachOf("checks", [&](const JsonNode& node) {
    const Members check(node);
    const std::optional<double> micros = check.FindNumber("measured_us");
    if (micros) timing.checks.push_back({check.Number("simulated_us"), *micros});
  });
  return timing;
}

TrialRecord ReadTrial(const JsonNode& root) {
  CheckSchema(root, "emplace.trial");
  const Members members(root);
  TrialRecord trial;
  trial.version = members.FindText("emplace");
  trial.revision = members.FindText("revision");
  const JsonNode spec = members.Get("spec", "the content of spec.json");
  const JsonNode agent = Members(spec).Get("agent", "an agent");
  trial.label = Members(agent).FindText("label");
  if (trial.label.empty()) trial.label = Members(agent).Text("name");
  trial.seed = PlainText(Members(spec).Get("seed", "a seed").value());
  trial.spec = spec.value();
  members.EachOf("graphs", [&](const JsonNode& graph) { trial.graphs.push_back(ReadGraph(graph)); });
  if (trial.graphs.empty()) throw InputError("graphs", "is missing (one entry for each graph)");
  members.EachOf("transfer", [&](const JsonNode& graph) { trial.transfers.push_back(ReadTransfer(graph)); });
  return trial;
}

UnfinishedTrial DescribeUnfinished(const fs::path& folder) {
  UnfinishedTrial trial;
  trial.id = folder.filename().string();
  try {
    trial.spec = ReadJsonFile(folder / "spec.json");
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
  const Members members(root);
  if (const std::string name = members.FindText("name"); !name.empty()) runs->name = name;
  runs->question = members.FindText("question");
  runs->published = members.FindText("published");
  members.EachOf("metrics", [&](const JsonNode& metric) { runs->metrics.push_back(metric.NonEmptyText()); });
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
      TrialRecord trial = ReadFile(path / "trial.json", ReadTrial);
      trial.id = path.filename().string();
      trial.folder = path.string();
      if (fs::exists(path / "timing.json")) trial.timing = ReadFile(path / "timing.json", ReadTiming);
      runs.trials.push_back(std::move(trial));
    } else if (fs::exists(path / "spec.json") || fs::exists(path / "error.txt")) {
      runs.unfinished.push_back(DescribeUnfinished(path));
    }
  }
  return runs;
}

bool IsExperiment(const fs::path& folder) { return fs::exists(folder / "experiment.json"); }

std::string DescribeGraph(const JsonValue& graph) {
  std::string text;
  for (const std::string_view key : {"dataset", "file", "model"}) {
    if (const JsonValue* value = FindMember(graph, key)) text = PlainText(*value);
  }
  if (const JsonValue* index = FindMember(graph, "index")) text += " " + PlainText(*index);
  return text;
}

}  // namespace

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

const JsonValue* FindPath(const JsonValue& root, std::string_view path) {
  const JsonValue* value = &root;
  while (value != nullptr && !path.empty()) {
    const std::size_t dot = std::min(path.find('.'), path.size());
    value = FindMember(*value, path.substr(0, dot));
    path.remove_prefix(std::min(dot + 1, path.size()));
  }
  return value;
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
  const JsonValue* together = FindPath(spec, "together");
  if (const auto* list = together == nullptr ? nullptr : together->As<JsonList>()) {
    parts.push_back(fmt::format("{} graphs together", list->size()));
  }
  const JsonValue* devices = FindPath(spec, "cluster.devices");
  if (const auto* list = devices == nullptr ? nullptr : devices->As<JsonList>()) {
    parts.push_back(fmt::format("{} devices", list->size()));
  }
  add(FindPath(spec, "seed"), "seed {}");
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace emplace
