#include <istream>

#include "datasets/importers/importers.h"
#include "sim/formats/graph_json.h"

namespace emplace::datasets {

bool LooksLikeEmplaceGraph(std::string_view content) {
  return StartsAnObject(content) && content.find("\"emplace.graph\"") != std::string_view::npos;
}

Imported ImportEmplaceGraph(std::span<const ImportSource> sources, const ImportOptions&) {
  const ImportSource& source = sources.front();
  return {.graph = ReadGraph(*source.Open(InputKind::kGraph), source.name()), .cluster = std::nullopt, .notes = {}};
}

}  // namespace emplace::datasets
