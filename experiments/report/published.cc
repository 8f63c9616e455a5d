#include "experiments/report/published.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "experiments/report/report_metrics.h"
#include "experiments/shipped_tables.h"
#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "sim/base/json_fields.h"
#include "sim/base/json_text.h"
#include "sim/formats/cluster_yaml.h"

namespace emplace::experiments {
namespace {

// Shipped tables of this schema. (Other files of experiments/published are for `emplace reproduce`.)
constexpr std::string_view kShippedPublished[] = {"hierarchical", "post", "sgdp", "thesis"};

constexpr double kMostPublished = 1e18;

PublishedFigure ReadPublishedFigure(const JsonNode& node) {
  const JsonFields fields(node, {"match", "over", "metric", "value", "place"});
  PublishedFigure figure;
  const JsonNode match = fields.Get("match", "key paths with values");
  for (const JsonMember& member : match.Object()) figure.match[member.key] = PlainText(member.value);
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
  const JsonNode value = fields.Get("value", "a number");
  figure.value = value.Number(-kMostPublished, kMostPublished);
  figure.place = fields.Get("place", "table and row").NonEmptyText();
  return figure;
}

std::string NumDevices(const TrialRecord& trial) {
  return trial.graphs.empty() ? "" : NumberText(trial.graphs[0].num_devices);
}

}  // namespace

PublishedFigures ReadPublished(std::istream& in, const std::string& file) {
  try {
    const JsonValue root = ParseYaml(in);
    const JsonNode node(root);
    CheckSchema(node, "emplace.published");
    const JsonFields fields(node, {"schema", "version", "name", "source", "figures"});
    PublishedFigures published;
    published.name = fields.Get("name", "a string").NonEmptyText();
    published.source = fields.Get("source", "a string").NonEmptyText();
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
  for (const std::string_view shipped : kShippedPublished) {
    if (shipped != name_or_file) continue;
    std::istringstream in{std::string(ShippedTable(shipped))};
    return ReadPublished(in, name_or_file);
  }
  if (!std::filesystem::exists(name_or_file)) {
    throw InputError("published", fmt::format("there is no table {} (a file, or one of: {})", Quoted(name_or_file),
                                              fmt::join(kShippedPublished, ", ")));
  }
  return ReadPublished(*OpenForReading(name_or_file), name_or_file);
}

std::string MatchText(const TrialRecord& trial, const std::string& key) {
  if (key == "num_devices") return NumDevices(trial);
  const JsonValue* value = FindPath(trial.spec, key);
  if (value != nullptr) return PlainText(*value);
  // For graphs that were trained on together, the value if it is the same for all.
  constexpr std::string_view kGraph = "graph.";
  const JsonValue* together = key.starts_with(kGraph) ? FindPath(trial.spec, "together") : nullptr;
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

bool Matches(const PublishedFigure& figure, const TrialRecord& trial) {
  return std::all_of(figure.match.begin(), figure.match.end(),
                     [&trial](const auto& expected) { return MatchText(trial, expected.first) == expected.second; });
}

}  // namespace emplace::experiments
