#include <sstream>

#include "datasets/importers/importers.h"
#include "sim/formats/graph_json.h"

namespace emplace::datasets {

bool LooksLikeEmplaceGraph(std::string_view content) {
  return StartsAnObject(content) && content.find("\"emplace.graph\"") != std::string_view::npos;
}

Imported ImportEmplaceGraph(const std::string& content, const std::string& file) {
  std::istringstream in(content);
  return {.graph = ReadGraph(in, file), .cluster = std::nullopt, .notes = {}};
}

}  // namespace emplace::datasets
