#include "datasets/models/named_network.h"

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

namespace emplace::datasets {
namespace {

// The network with other values of these fields.
TransformerNetwork Changed(const TransformerNetwork& preset, const OptionMap& settings, const std::string& place) {
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
  auto network = WithLocation(place, [&] { return ReadFields<TransformerNetwork>(JsonNode(root)); });
  CheckTransformer(network);
  return network;
}

}  // namespace

TransformerNetwork NamedNetwork(const std::string& name, const OptionMap& settings, const std::string& place) {
  if (const std::optional<TransformerNetwork> network = FindNetwork(name)) {
    return settings.empty() ? *network : Changed(*network, settings, place);
  }
  std::vector<std::string> names;
  for (const TransformerNetwork& network : TransformerPresets()) names.push_back(network.name);
  throw InputError(
      name, fmt::format("is no network ({}, or a config.json){}", fmt::join(names, ", "), DidYouMean(name, names)));
}

std::int64_t UsualSequence(const TransformerNetwork& network) {
  constexpr std::int64_t kUsual = 4096;
  return network.max_positions > 0 ? std::min(network.max_positions, kUsual) : kUsual;
}

}  // namespace emplace::datasets
