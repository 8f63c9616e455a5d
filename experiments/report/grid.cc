#include "experiments/report/grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "experiments/plan/trial_choice.h"
#include "experiments/report/devices.h"
#include "experiments/report/published.h"
#include "sim/base/check.h"
#include "sim/base/json_text.h"

namespace emplace::experiments {
namespace {

constexpr const char* kDataset = "graph.dataset";
constexpr const char* kDevices = "num_devices";

// Keys that identify a trial or a repetition, or are handled as a separate axis.
bool IsNoAxis(const std::string& path) {
  static const std::set<std::string> none = {"schema", "version", "experiment", "seed", "graph", "agent.label"};
  return none.count(path) > 0;
}

// Adds the key paths of all values in a spec that are not objects.
void AddPaths(const JsonValue& value, const std::string& path, std::vector<std::string>* paths) {
  if (IsNoAxis(path)) return;
  const auto* members = value.As<JsonObject>();
  if (members == nullptr) {
    if (std::find(paths->begin(), paths->end(), path) == paths->end()) paths->push_back(path);
    return;
  }
  for (const JsonMember& member : *members) {
    AddPaths(member.value, path.empty() ? member.key : path + "." + member.key, paths);
  }
}

// Whether trials that differ in it solve different problems.
bool DefinesTheProblem(std::string_view path) {
  for (const std::string_view part :
       {"cluster", "engine", "collectives", "costs", "profile_fingerprint", "objective", "schedule", "micro_batches"}) {
    if (path.starts_with(part) && (path.size() == part.size() || path[part.size()] == '.')) return true;
  }
  return false;
}

// The common description of the graphs of a group: their description without the parts that tell repetitions apart.
JsonObject GroupContent(const TrialRecord& trial) {
  const JsonValue* const graph = FindPath(trial.spec, "graph");
  const auto* const members = graph == nullptr ? nullptr : graph->As<JsonObject>();
  JsonObject content;
  if (members == nullptr || FindMember(*graph, "instance") != nullptr) return content;
  for (const JsonMember& member : *members) {
    if (member.key != "index" && member.key != "groups" && member.key != "grouping") content.push_back(member);
  }
  return content;
}

// The part of a path that distinguishes it among `all`: its last names.
std::string DistinctEnd(const std::string& path, const std::set<std::string>& all) {
  std::size_t begin = path.size();
  while (begin > 0) {
    begin = path.rfind('/', begin - 1);
    begin = begin == std::string::npos ? 0 : begin;
    std::string end = path.substr(begin == 0 ? 0 : begin + 1);
    const auto matches = std::count_if(all.begin(), all.end(), [&end](const std::string& other) {
      return other == end || other.ends_with("/" + end);
    });
    if (matches <= 1) return end;
  }
  return path;
}

// Texts of groups of graphs: the name of the group, and what distinguishes groups of one name.
class GroupTitles {
 public:
  explicit GroupTitles(const std::vector<TrialRecord>& trials) {
    for (const TrialRecord& trial : trials) {
      std::vector<JsonObject>& contents = contents_[GraphGroup(trial)];
      JsonObject content = GroupContent(trial);
      if (content.empty()) continue;  // empty if graphs are trained together, or come from the library
      const std::string text = JsonText({content});
      const bool is_known = std::any_of(contents.begin(), contents.end(),
                                        [&text](const JsonObject& known) { return JsonText({known}) == text; });
      if (!is_known) contents.push_back(std::move(content));
    }
  }

  std::string Of(const TrialRecord& trial) const {
    std::string title = GraphGroup(trial);
    const std::vector<JsonObject>& contents = contents_.at(title);
    const JsonObject own = GroupContent(trial);
    if (contents.size() <= 1 || own.empty()) return title;
    std::map<std::string, std::set<std::string>> values;  // values of each key over all groups with the name
    for (const JsonObject& content : contents) {
      for (const JsonMember& member : content) values[member.key];
    }
    for (auto& [key, texts] : values) {
      for (const JsonObject& content : contents) texts.insert(TextOf(content, key));
    }
    const bool by_file = values.contains("file") && values["file"].size() > 1;
    for (const auto& [key, texts] : values) {
      const std::string text = TextOf(own, key);
      if (texts.size() == 1 || text.empty() || (key == "fingerprint" && by_file)) continue;
      title += key == "file" ? " (" + DistinctEnd(text, texts) + ")" : " (" + key + " " + text + ")";
    }
    return title;
  }

 private:
  static std::string TextOf(const JsonObject& content, const std::string& key) {
    const JsonValue* const value = FindMember(content, key);
    return value == nullptr ? "" : PlainText(*value);
  }

  std::map<std::string, std::vector<JsonObject>> contents_;
};

std::string TextOfAxis(const TrialRecord& trial, const std::string& axis, const GroupTitles& titles) {
  return axis == kDataset ? titles.Of(trial) : AxisText(trial, axis);
}

// Whether the axis has several values among trials with equal `key_of`.
template <typename KeyOf>
bool Varies(const std::vector<TrialRecord>& trials, const std::string& axis, const GroupTitles& titles,
            const KeyOf& key_of) {
  std::map<std::vector<std::string>, std::string> seen;
  for (const TrialRecord& trial : trials) {
    const std::string text = TextOfAxis(trial, axis, titles);
    const auto [at, is_new] = seen.emplace(key_of(trial), text);
    if (!is_new && at->second != text) return true;
  }
  return false;
}

std::vector<std::string> ColumnOf(const TrialRecord& trial, const std::vector<std::string>& axes,
                                  const GroupTitles& titles) {
  std::vector<std::string> column;
  column.reserve(axes.size());
  for (const std::string& axis : axes) column.push_back(TextOfAxis(trial, axis, titles));
  return column;
}

std::vector<std::string> FindAxes(const std::vector<TrialRecord>& trials, const GroupTitles& titles) {
  std::vector<std::string> axes;
  for (const char* const axis : {kDataset, kDevices}) {
    const auto no_key = [](const TrialRecord&) { return std::vector<std::string>(); };
    if (Varies(trials, axis, titles, no_key)) axes.emplace_back(axis);
  }
  std::vector<std::string> paths;
  for (const TrialRecord& trial : trials) AddPaths(trial.spec, "", &paths);
  for (const std::string& path : paths) {
    const auto key_of = [&](const TrialRecord& trial) {
      std::vector<std::string> key = ColumnOf(trial, axes, titles);
      if (!DefinesTheProblem(path)) key.push_back(trial.label);
      // Trials that differ in together or transfer also differ in graphs, so the graph is not part of the key.
      if (path != "together" && path != "transfer") key.push_back(GraphKey(trial));
      return key;
    };
    if (Varies(trials, path, titles, key_of)) axes.push_back(path);
  }
  return axes;
}

// A value of an axis for people: of the path of a file, what distinguishes it from the axis's other files.
std::string ShownValue(const ReportGrid& grid, std::size_t axis, const std::string& value) {
  const std::size_t slash = value.find('/');
  if (slash == std::string::npos) return value;
  const std::size_t begin = value.starts_with(kProfilePrefix) ? kProfilePrefix.size() : 0;
  if (begin == 0 && slash != 0) return value;  // no path
  std::set<std::string> all;
  for (const std::vector<std::string>& column : grid.columns) {
    if (column[axis].size() > begin) all.insert(column[axis].substr(begin));
  }
  return value.substr(0, begin) + DistinctEnd(value.substr(begin), all);
}

std::optional<double> LeadingNumber(const std::string& text) {
  double number = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), number);
  if (result.ec != std::errc()) return std::nullopt;
  return number;
}

}  // namespace

bool NaturallyLess(const std::string& a, const std::string& b) {
  const auto x = LeadingNumber(a);
  const auto y = LeadingNumber(b);
  if (x && y && *x != *y) return *x < *y;
  if (x.has_value() != y.has_value()) return x.has_value();
  return a < b;
}

std::vector<std::string> NaturallySorted(const std::set<std::string>& texts) {
  std::vector<std::string> sorted(texts.begin(), texts.end());
  std::sort(sorted.begin(), sorted.end(), NaturallyLess);
  return sorted;
}

std::string GraphGroup(const TrialRecord& trial) {
  if (std::string dataset = MatchText(trial, "graph.dataset"); !dataset.empty()) return dataset;
  if (!MatchText(trial, "graph.instance").empty()) return "library";
  if (const std::string file = MatchText(trial, "graph.file"); !file.empty()) {
    return std::filesystem::path(file).stem().string();
  }
  const std::string model = MatchText(trial, "graph.model");
  if (model.empty()) return AxisText(trial, "together") + " graphs";
  const std::string set = MatchText(trial, "graph.set");
  return set.empty() || set == "{}" ? model : model + " " + set;
}

std::string GraphKey(const TrialRecord& trial) {
  std::string text;
  for (const char* const key : {"graph", "together"}) {
    if (const JsonValue* value = FindPath(trial.spec, key)) text += PlainText(*value);
  }
  return text;
}

std::string AxisText(const TrialRecord& trial, const std::string& axis) {
  if (axis == kDataset) return GraphGroup(trial);
  const JsonValue* value = FindPath(trial.spec, axis);
  if (axis == "together" || axis == "transfer") {
    const auto* list = value == nullptr ? nullptr : value->As<JsonList>();
    return list == nullptr ? "" : std::to_string(list->size());
  }
  return MatchText(trial, axis);
}

ReportGrid MakeReportGrid(const std::vector<TrialRecord>& trials) {
  EMPLACE_CHECK(!trials.empty());
  ReportGrid grid;
  const GroupTitles titles(trials);
  grid.axes = FindAxes(trials, titles);
  grid.devices = DeviceTitles(trials);
  std::set<std::string> labels;
  for (const TrialRecord& trial : trials) {
    labels.insert(trial.label);
    grid.columns.push_back(ColumnOf(trial, grid.axes, titles));
  }
  grid.labels.assign(labels.begin(), labels.end());
  std::sort(grid.columns.begin(), grid.columns.end(), [](const auto& a, const auto& b) {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), NaturallyLess);
  });
  grid.columns.erase(std::unique(grid.columns.begin(), grid.columns.end()), grid.columns.end());
  for (const TrialRecord& trial : trials) {
    const auto at = std::find(grid.columns.begin(), grid.columns.end(), ColumnOf(trial, grid.axes, titles));
    grid.column_of.push_back(static_cast<std::size_t>(at - grid.columns.begin()));
  }
  return grid;
}

std::vector<std::vector<std::size_t>> ColumnsByDataset(const ReportGrid& grid) {
  const bool has_dataset = !grid.axes.empty() && grid.axes[0] == kDataset;
  std::vector<std::vector<std::size_t>> groups;
  for (std::size_t c = 0; c < grid.columns.size(); ++c) {
    const bool is_next = c == 0 || (has_dataset && grid.columns[c][0] != grid.columns[c - 1][0]);
    if (is_next) groups.emplace_back();
    groups.back().push_back(c);
  }
  return groups;
}

std::string ColumnTitle(const ReportGrid& grid, const std::vector<std::string>& column) {
  if (column.empty()) return "all";
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < column.size(); ++i) {
    const std::string& axis = grid.axes[i];
    if (axis == kDataset) {
      parts.push_back(column[i]);
    } else if (axis == kDevices) {
      const auto title = grid.devices.find(column[i]);
      parts.push_back(title != grid.devices.end() ? title->second : column[i] + " devices");
    } else if (axis == "together" || axis == "transfer") {
      parts.push_back(column[i].empty() ? "one by one" : fmt::format("{} {} graphs", axis, column[i]));
    } else {
      parts.push_back(fmt::format("{} {}", axis, column[i].empty() ? "-" : ShownValue(grid, i, column[i])));
    }
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace emplace::experiments
