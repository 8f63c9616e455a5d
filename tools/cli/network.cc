#include "tools/cli/network.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "datasets/models/registry.h"
#include "sim/base/check.h"
#include "sim/base/json_struct.h"
#include "sim/base/json_text.h"
#include "sim/base/suggestion.h"

namespace emplace::tools {
namespace {

// The fields of the network that --set names, over those of the preset.
datasets::TransformerNetwork Changed(const datasets::TransformerNetwork& preset, const OptionMap& settings) {
  JsonObject fields = FieldsToJson(preset);
  for (const auto& [key, text] : settings) {
    JsonValue value = ToJson(text);
    try {
      std::istringstream in(text);
      value = ParseJson(in);
    } catch (const InputError&) {  // a text, such as rms
    }
    const auto found = std::ranges::find(fields, key, &JsonMember::key);
    if (found != fields.end()) {
      found->value = value;
    } else {
      AddMember(&fields, key, value);
    }
  }
  const JsonValue root{std::move(fields)};
  auto network = WithLocation("--set", [&] { return ReadFields<datasets::TransformerNetwork>(JsonNode(root)); });
  datasets::CheckTransformer(network);
  return network;
}

}  // namespace

datasets::TransformerNetwork NamedNetwork(const std::string& name, const OptionMap& settings) {
  if (const std::optional<datasets::TransformerNetwork> network = datasets::FindNetwork(name)) {
    return settings.empty() ? *network : Changed(*network, settings);
  }
  std::vector<std::string> names;
  for (const datasets::TransformerNetwork& network : datasets::TransformerPresets()) names.push_back(network.name);
  throw InputError(
      name, fmt::format("is no network ({}, or a config.json){}", fmt::join(names, ", "), DidYouMean(name, names)));
}

std::int64_t UsualSequence(const datasets::TransformerNetwork& network) {
  constexpr std::int64_t kUsual = 4096;
  return network.max_positions > 0 ? std::min(network.max_positions, kUsual) : kUsual;
}

}  // namespace emplace::tools
