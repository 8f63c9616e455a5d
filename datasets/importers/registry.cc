#include <array>
#include <sstream>
#include <string>

#include "datasets/importer.h"
#include "datasets/importers/dnn_partitioning.h"
#include "datasets/importers/pipedream.h"
#include "sim/check.h"
#include "sim/graph_json.h"

namespace emplace {
namespace {

bool LooksLikeEmplace(std::string_view content) { return content.find("\"emplace.graph\"") != std::string_view::npos; }

Imported ImportEmplace(const std::string& content, const std::string& file) {
  std::istringstream in(content);
  return {.graph = ReadGraph(in, file), .cluster = std::nullopt, .notes = {}};
}

}  // namespace

std::span<const ImporterEntry> AllImporters() {
  static constexpr std::array<ImporterEntry, 3> kImporters = {{
      {"emplace", "A graph.json, checked and written anew.", "emplace", LooksLikeEmplace, ImportEmplace},
      {"pipedream", "A PipeDream profile (graph.txt): a forward and a backward op per layer.",
       "Narayanan et al. 2019; github.com/msr-fiddle/pipedream", LooksLikePipeDream, ImportPipeDream},
      {"dnn-partitioning",
       "A workload of msr-fiddle/dnn-partitioning (JSON), with its cluster and human experts' splits.",
       "Tarnawski et al. 2020; github.com/msr-fiddle/dnn-partitioning", LooksLikeDnnPartitioning,
       ImportDnnPartitioning},
  }};
  return kImporters;
}

const ImporterEntry& FindImporter(std::string_view format, std::string_view content, const std::string& file) {
  std::string known;
  for (const ImporterEntry& entry : AllImporters()) {
    if (format.empty() ? entry.detect(content) : entry.name == format) return entry;
    known.append(known.empty() ? "" : ", ").append(entry.name);
  }
  if (!format.empty()) throw InputError("", "unknown format \"" + std::string(format) + "\" (" + known + ")");
  throw InputError(file, "is of no known format (" + known + ")");
}

}  // namespace emplace
