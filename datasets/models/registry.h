#ifndef EMPLACE_DATASETS_MODELS_REGISTRY_H_
#define EMPLACE_DATASETS_MODELS_REGISTRY_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/models/transformer.h"
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
// What MakeModel() takes by name: the models, and the networks of TransformerPresets(), which take the options of
// `llama`.
struct ModelName {
  std::string name;
  std::string summary;
  std::string source;
};
std::vector<ModelName> AllModelNames();
// Throws InputError, with a suggestion, if the name is none of those.
ModelName FindModelName(std::string_view name);
// The graph of a model or preset with these options, such as MakeModel("nmt", {{"layers", "4"}}). A name that ends in
// .json is the path of a `config.json` (hugging_face_config.h). Throws InputError on an unknown name or a bad option.
Graph MakeModel(std::string_view name, const OptionMap& options = {});
// The network of a preset, of `llama`, or of a `config.json`; nullopt if `name` is another model. Throws as MakeModel.
std::optional<TransformerNetwork> FindNetwork(std::string_view name);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_MODELS_REGISTRY_H_
