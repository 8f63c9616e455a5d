#include "datasets/importers/registry.h"

#include <string>

#include "datasets/importers/importers.h"
#include "sim/base/check.h"
#include "sim/base/registry.h"

namespace emplace::datasets {
namespace {

constexpr ImporterEntry kImporters[] = {
    {"emplace", "graph.json of emplace itself, read and written again", "emplace.graph, version 1",
     LooksLikeEmplaceGraph, ImportEmplaceGraph},
    {"pipedream", "graph.txt of PipeDream's profiler: times of each layer, forward and backward, measured on a GPU",
     "Narayanan et al. 2019, PipeDream; github.com/msr-fiddle/pipedream", LooksLikePipeDream, ImportPipeDream},
    {"dnn-partitioning", "JSON input of Microsoft's placement algorithms: graph, cluster and human experts' placements",
     "Tarnawski et al. 2020, Efficient algorithms for device placement of DNN graph operators; "
     "github.com/msr-fiddle/dnn-partitioning",
     LooksLikeDnnPartitioning, ImportDnnPartitioning},
};

}  // namespace

std::span<const ImporterEntry> AllImporters() { return kImporters; }

const ImporterEntry& FindImporter(std::string_view format, std::string_view content, const std::string& file) {
  if (!format.empty()) return FindByName(kImporters, format, "format");
  for (const ImporterEntry& importer : kImporters) {
    if (importer.detect(content)) return importer;
  }
  throw InputError(file, "is in none of the formats that can be imported (" + Listed(kImporters) + ")");
}

bool StartsAnObject(std::string_view content) {
  const std::size_t first = content.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && content[first] == '{';
}

}  // namespace emplace::datasets
