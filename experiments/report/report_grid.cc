#include "experiments/report/report_grid.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include "experiments/report/published.h"
#include "experiments/report/report_devices.h"
#include "sim/base/check.h"

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

std::string GraphText(const TrialRecord& trial) {
  std::string text;
  for (const char* const key : {"graph", "together"}) {
    if (const JsonValue* value = FindPath(trial.spec, key)) text += PlainText(*value);
  }
  return text;
}

// Whether the axis has several values among trials with equal `key_of`.
template <typename KeyOf>
bool Varies(const std::vector<TrialRecord>& trials, const std::string& axis, const KeyOf& key_of) {
  std::map<std::vector<std::string>, std::string> seen;
  for (const TrialRecord& trial : trials) {
    const std::string text = AxisText(trial, axis);
    const auto [at, is_new] = seen.emplace(key_of(trial), text);
    if (!is_new && at->second != text) return true;
  }
  return false;
}

std::vector<std::string> ColumnOf(const TrialRecord& trial, const std::vector<std::string>& axes) {
  std::vector<std::string> column;
  column.reserve(axes.size());
  for (const std::string& axis : axes) column.push_back(AxisText(trial, axis));
  return column;
}

std::vector<std::string> FindAxes(const std::vector<TrialRecord>& trials) {
  std::vector<std::string> axes;
  for (const char* const axis : {kDataset, kDevices}) {
    if (Varies(trials, axis, [](const TrialRecord&) { return std::vector<std::string>(); })) axes.emplace_back(axis);
  }
  std::vector<std::string> paths;
  for (const TrialRecord& trial : trials) AddPaths(trial.spec, "", &paths);
  for (const std::string& path : paths) {
    const auto key_of = [&](const TrialRecord& trial) {
      std::vector<std::string> key = ColumnOf(trial, axes);
      key.push_back(trial.label);
      // Trials that differ in together or transfer also differ in graphs, so the graph is not part of the key.
      if (path != "together" && path != "transfer") key.push_back(GraphText(trial));
      return key;
    };
    if (Varies(trials, path, key_of)) axes.push_back(path);
  }
  return axes;
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
  grid.axes = FindAxes(trials);
  grid.devices = DeviceTitles(trials);
  std::set<std::string> labels;
  for (const TrialRecord& trial : trials) {
    labels.insert(trial.label);
    grid.columns.push_back(ColumnOf(trial, grid.axes));
  }
  grid.labels.assign(labels.begin(), labels.end());
  std::sort(grid.columns.begin(), grid.columns.end(), [](const auto& a, const auto& b) {
    return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end(), NaturallyLess);
  });
  grid.columns.erase(std::unique(grid.columns.begin(), grid.columns.end()), grid.columns.end());
  for (const TrialRecord& trial : trials) {
    const auto at = std::find(grid.columns.begin(), grid.columns.end(), ColumnOf(trial, grid.axes));
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
      parts.push_back(fmt::format("{} {}", axis, column[i].empty() ? "-" : column[i]));
    }
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

}  // namespace emplace::experiments
