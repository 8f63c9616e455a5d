#ifndef EMPLACE_DATASETS_IMPORTERS_REGISTRY_H_
#define EMPLACE_DATASETS_IMPORTERS_REGISTRY_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cluster.h"
#include "sim/graph.h"
#include "sim/placement.h"

namespace emplace::datasets {

// What a foreign file held.
struct Imported {
  Graph graph;
  std::optional<Cluster> cluster;  // where the format describes one
  std::vector<std::string> notes;  // what was left out or could not be attributed: one line each, for the user
};

// A row of `emplace list importers`.
struct ImporterEntry {
  std::string_view name;
  std::string_view summary;
  std::string_view source;
  // Whether the content looks like this format (of a file that may still be broken).
  bool (*detect)(std::string_view content);
  // Throws InputError, its place starting with `file`.
  Imported (*import)(const std::string& content, const std::string& file);
};
std::span<const ImporterEntry> AllImporters();
// The format named, or found from the content if `format` is empty. Throws InputError that lists the known names.
const ImporterEntry& FindImporter(std::string_view format, std::string_view content, const std::string& file);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_REGISTRY_H_
