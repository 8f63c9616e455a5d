#include "experiments/report/published.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "experiments/report/metrics.h"
#include "experiments/shipped_tables.h"
#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "sim/base/json_fields.h"
#include "sim/base/json_text.h"
#include "sim/formats/cluster_yaml.h"

namespace emplace::experiments {
namespace {

constexpr double kMostPublished = 1e18;
constexpr std::string_view kNumDevices = "num_devices";

constexpr std::int64_t kMostRank = 1000;

std::map<std::string, std::string> ReadConditions(const JsonNode& node) {
  std::map<std::string, std::string> conditions;
  for (const JsonMember& member : node.Object("key paths with values")) {
    conditions[member.key] = PlainText(member.value);
  }
  return conditions;
}

// A value, or what is there in its place.
void ReadValue(const JsonNode& node, const JsonFields& fields, PublishedFigure* figure) {
  const auto missing = fields.Find("missing");
  const auto rank = fields.Find("rank");
  if (!missing) {
    figure->value =
        fields.Get("value", "a number, or `missing`: why there is none").Number(-kMostPublished, kMostPublished);
    if (rank) throw InputError(rank->Place(), "is not for a figure with a value");
    return;
  }
  if (fields.Find("value")) throw InputError(node.Place(), "has both value and missing (one of them)");
  figure->missing = missing->NonEmptyText();
  if (rank) figure->rank = static_cast<double>(rank->Integer(1, kMostRank));
}

PublishedFigure ReadPublishedFigure(const JsonNode& node) {
  const JsonFields fields(node, {"match", "over", "metric", "value", "missing", "rank", "place"});
  PublishedFigure figure;
  figure.match = ReadConditions(fields.Get("match", "key paths with values"));
  if (const auto over = fields.Find("over")) {
    for (const JsonMember& member : over->Object()) {
      const JsonNode values(*over, member.key, member.value);
      for (const JsonValue& value : values.List("a list of values")) {
        figure.over[member.key].push_back(PlainText(value));
      }
    }
  }
  const JsonNode metric = fields.Get("metric", "a metric");
  figure.metric = FindMetric(metric.NonEmptyText(), metric.Place()).name;
  ReadValue(node, fields, &figure);
  figure.place = fields.Get("place", "table and row").NonEmptyText();
  return figure;
}

// The value at `key` in the spec itself.
std::string TextAt(const JsonValue& spec, const std::string& key) {
  const JsonValue* value = FindPath(spec, key);
  if (value != nullptr) return PlainText(*value);
  // For graphs that were trained on together, the value if it is the same for all.
  constexpr std::string_view kGraph = "graph.";
  const JsonValue* together = key.starts_with(kGraph) ? FindPath(spec, "together") : nullptr;
  const auto* list = together == nullptr ? nullptr : together->As<JsonList>();
  if (list == nullptr || list->empty()) return "";
  const auto said_by = [&key, kGraph](const JsonValue& graph) {
    const JsonValue* const said = FindPath(graph, key.substr(kGraph.size()));
    return said == nullptr ? "" : PlainText(*said);
  };
  std::string text = said_by(list->front());
  const bool all_say_it =
      std::all_of(list->begin(), list->end(), [&](const JsonValue& graph) { return said_by(graph) == text; });
  return all_say_it ? text : "";
}

}  // namespace

PublishedFigures ReadPublished(std::istream& in, const std::string& file) {
  try {
    const JsonValue root = ParseYaml(in, InputKind::kPublished);
    const JsonNode node(root);
    CheckSchema(node, "emplace.published");
    const JsonFields fields(node, {"schema", "version", "name", "source", "baselines", "figures"});
    PublishedFigures published;
    published.name = fields.Get("name", "a string").NonEmptyText();
    published.source = fields.Get("source", "a string").NonEmptyText();
    if (const auto baselines = fields.Find("baselines")) {
      const JsonList& list = baselines->List("a list of key paths with values");
      for (std::size_t i = 0; i < list.size(); ++i) {
        published.baselines.push_back(ReadConditions(JsonNode(*baselines, i, list[i])));
      }
    }
    const JsonNode figures = fields.Get("figures", "a list of figures");
    const JsonList& list = figures.List("a list of figures");
    for (std::size_t i = 0; i < list.size(); ++i)
      published.figures.push_back(ReadPublishedFigure(JsonNode(figures, i, list[i])));
    return published;
  } catch (const InputError& error) {
    throw error.In(file);
  }
}

PublishedFigures LoadPublished(const std::string& name_or_file) {
  const std::vector<std::string_view> names = PublishedTableNames();
  for (const std::string_view shipped : names) {
    if (shipped != name_or_file) continue;
    std::istringstream in{std::string(ShippedTable(shipped))};
    return ReadPublished(in, name_or_file);
  }
  if (!std::filesystem::exists(name_or_file)) {
    throw InputError("published", fmt::format("there is no table {} (a file, or one of: {})", Quoted(name_or_file),
                                              fmt::join(names, ", ")));
  }
  return ReadPublished(*OpenForReading(name_or_file, InputKind::kPublished), name_or_file);
}

std::string FigureText(const PublishedFigure& figure) {
  return figure.value ? NumberText(*figure.value) : figure.missing;
}

std::string MatchText(const TrialRecord& trial, const std::string& key) {
  if (key != kNumDevices) return TextAt(trial.spec, key);
  // A trial without results has the devices of its spec.
  return trial.graphs.empty() ? MatchText(trial.spec, key) : NumberText(trial.graphs[0].num_devices);
}

std::string MatchText(const JsonValue& spec, const std::string& key) {
  if (key != kNumDevices) return TextAt(spec, key);
  const JsonValue* const devices = FindPath(spec, "cluster.devices");
  const auto* const list = devices == nullptr ? nullptr : devices->As<JsonList>();
  return list == nullptr ? "" : std::to_string(list->size());
}

bool Matches(const PublishedFigure& figure, const TrialRecord& trial) {
  return std::all_of(figure.match.begin(), figure.match.end(),
                     [&trial](const auto& expected) { return MatchText(trial, expected.first) == expected.second; });
}

}  // namespace emplace::experiments
