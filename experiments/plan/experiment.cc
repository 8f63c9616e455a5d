#include "experiments/plan/experiment.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <istream>
#include <iterator>
#include <map>
#include <sstream>
#include <string_view>
#include <utility>

#include "experiments/plan/checked_json.h"
#include "experiments/plan/experiment_fields.h"
#include "experiments/plan/metric_names.h"
#include "experiments/shipped_tables.h"
#include "sim/base/check.h"
#include "sim/base/json_fields.h"
#include "sim/base/json_text.h"
#include "sim/base/registry.h"
#include "sim/formats/cluster_yaml.h"

namespace emplace::experiments {
std::string FirstComment(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string::npos || text[begin] != '#') return "";
  std::string line = text.substr(begin, text.find('\n', begin) - begin);
  const std::size_t first = line.find_first_not_of("# \t");
  if (first == std::string::npos) return "";
  return line.substr(first, line.find_last_not_of(" \t\r") + 1 - first);
}

std::string ReadExperimentName(const JsonNode& node) {
  constexpr std::string_view kAllowed = "letters, digits, '-', '_' and '.', not first: the name of a folder";
  std::string name = node.Text(kAllowed);
  const bool plain = std::all_of(name.begin(), name.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ||
           c == '.';
  });
  if (!plain || name.empty() || name[0] == '.' || name.size() > 100) node.Refuse(kAllowed);
  return name;
}

namespace {

namespace fs = std::filesystem;

std::vector<std::string> ReadMetrics(const JsonNode& node) {
  const std::string allowed = Listed(kMetricNames);
  std::vector<std::string> metrics;
  const JsonList& list = node.List("a list of " + allowed);
  for (std::size_t i = 0; i < list.size(); ++i) {
    const JsonNode element(node, i, list[i]);
    const std::string& metric = element.Text(allowed);
    if (std::ranges::find(kMetricNames, metric) == std::end(kMetricNames)) element.Refuse(allowed);
    if (std::find(metrics.begin(), metrics.end(), metric) != metrics.end()) {
      throw InputError(element.Place(), "is a duplicate entry (each metric once)");
    }
    metrics.push_back(metric);
  }
  return metrics;
}

// The name of a shipped table, or a file's path.
std::string ReadPublishedName(const JsonNode& node, const std::string& file) {
  std::string name = node.NonEmptyText();
  const std::vector<std::string_view> shipped = PublishedTableNames();
  if (std::ranges::find(shipped, name) != shipped.end()) return name;
  std::string path = ResolvePath(name, file);
  std::error_code ignored;
  if (fs::is_regular_file(path, ignored)) return path;
  throw InputError(node.Place(), Quoted(name) +
                                     " is not a table of published numbers (one of experiments/published, or "
                                     "a file)");
}

// `emplace sweep` writes a checksum into experiment.json, which is also a valid experiment.
constexpr std::string_view kWithoutChecksum = "remove this line if you changed the file on purpose";

// Reads all fields that are not part of cells.
void ReadHead(const JsonNode& node, ExperimentSpec* spec) {
  const JsonFields fields = ExperimentFields(node);
  CheckChecksum(node, /*required=*/false, kWithoutChecksum);
  spec->name = ReadExperimentName(fields.Get("name", "a name for its folder of runs"));
  if (const auto field = fields.Find("question")) spec->question = field->Text();
  if (const auto field = fields.Find("metrics")) spec->metrics = ReadMetrics(*field);
  if (const auto field = fields.Find("published")) spec->published = ReadPublishedName(*field, spec->path);
}

// An agent with swept options and without a label is labelled by those options.
void NameByOptions(ExperimentCell* cell) {
  if (FindPath(cell->values.root, "agent.label") != nullptr) return;
  for (const SweepCell::Setting& setting : cell->values.settings) {
    constexpr std::string_view kSet = "agent.set.";
    if (!setting.path.starts_with(kSet)) continue;
    cell->label += fmt::format(" {}={}", setting.path.substr(kSet.size()), setting.text);
  }
}

// Reports have a row for each label, so two different agents with one label would silently be averaged.
void CheckLabels(const std::vector<ExperimentCell>& cells) {
  std::map<std::string, const ExperimentCell*> by_label;
  for (const ExperimentCell& cell : cells) {
    const ExperimentCell& first = *by_label.try_emplace(cell.label, &cell).first->second;
    if (first.agent == cell.agent && first.agent_options == cell.agent_options) continue;
    throw PlacedInSweep(
        InputError("agent.label", Quoted(cell.label) + " is also that of an agent with another name or other options "
                                                       "(a label for each)"),
        cell.values);
  }
}

ExperimentSpec ReadExperimentText(const std::string& text, const std::string& file) {
  ExperimentSpec spec;
  spec.path = file;
  spec.question = FirstComment(text);
  spec.root = ParseYaml(text, InputKind::kExperiment);
  const JsonNode root(spec.root);
  CheckSchema(root, "emplace.experiment");
  ReadHead(root, &spec);
  // Checks the common fields of all cells first, so that their errors do not mention a cell.
  ReadCell(spec.root, /*complete=*/false);
  SweepCells cells = ExpandSweep(root);
  spec.excluded = cells.excluded;
  for (SweepCell& cell : cells.cells) {
    try {
      spec.cells.push_back(ReadCell(cell.root, /*complete=*/true));
    } catch (const InputError& error) {
      throw PlacedInSweep(error, cell);
    }
    spec.cells.back().values = std::move(cell);
    NameByOptions(&spec.cells.back());
  }
  CheckLabels(spec.cells);
  return spec;
}

}  // namespace

std::string ResolvePath(const std::string& path, const std::string& file) {
  const fs::path folder = file == "-" ? fs::path() : fs::path(file).parent_path();
  return fs::absolute(folder / path).lexically_normal().string();
}

ExperimentSpec ReadExperiment(std::istream& in, const std::string& file) {
  try {
    return ReadExperimentText(ReadYamlText(in, InputKind::kExperiment), file);
  } catch (const InputError& error) {
    throw error.In(file);
  }
}

}  // namespace emplace::experiments
