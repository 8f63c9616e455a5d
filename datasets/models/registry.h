#ifndef EMPLACE_DATASETS_MODELS_REGISTRY_H_
#define EMPLACE_DATASETS_MODELS_REGISTRY_H_

#include <span>
#include <string_view>

#include "sim/base/options.h"
#include "sim/graph.h"

namespace emplace::datasets {

// A row of `emplace list models`: a network whose training graph `emplace generate` writes.
struct ModelEntry {
  std::string_view name;
  std::string_view summary;
  std::string_view source;
  // Declares its options to `reader`, calls reader.Finish(), and builds the graph. Throws InputError on bad options.
  // Same options, same bytes.
  Graph (*make)(OptionReader& reader);
};
std::span<const ModelEntry> AllModels();
// Throws InputError that lists the known names.
const ModelEntry& FindModel(std::string_view name);
// The model's graph with these options, such as MakeModel("nmt", {{"layers", "4"}}). Throws InputError on an unknown
// name or a bad option.
Graph MakeModel(std::string_view name, const OptionMap& options = {});

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_MODELS_REGISTRY_H_
