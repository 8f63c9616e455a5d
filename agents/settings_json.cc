#include "agents/settings_json.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/json_build.h"
#include "sim/base/json_options.h"

namespace emplace::agents {
namespace {

// Measuring is asked for by an object of this name, even an empty one.
constexpr std::string_view kHardware = "hardware";

// "hardware.steps" is "steps" in "hardware"; a key of the root is in "".
std::pair<std::string, std::string> ParentAndKey(const std::string& path) {
  const std::size_t dot = path.rfind('.');
  if (dot == std::string::npos) return {"", path};
  return {path.substr(0, dot), path.substr(dot + 1)};
}

struct ValueReader {
  const JsonNode& node;
  const Setting& setting;
  Door door;
  SearchSettings* settings;

  void operator()(std::string SearchSettings::*member) const {
    const std::string allowed =
        setting.words.empty() ? HintOf(setting) : fmt::format("{}", fmt::join(setting.words, ", "));
    if (node.Text(allowed).empty()) node.Refuse(allowed);
    settings->*member = node.Text(allowed);
  }
  void operator()(std::uint64_t SearchSettings::*member) const {
    // A spec has what was resolved: 0 groups where a grouper has no number.
    const std::uint64_t least = door == Door::kSpec ? 0 : setting.least;
    const std::uint64_t most = std::min<std::uint64_t>(setting.most, std::numeric_limits<std::int64_t>::max());
    settings->*member =
        static_cast<std::uint64_t>(node.Integer(static_cast<std::int64_t>(least), static_cast<std::int64_t>(most)));
  }
  void operator()(double SearchSettings::*member) const { settings->*member = node.Number(setting.low, setting.high); }
  void operator()(bool SearchSettings::*member) const { settings->*member = node.Flag(); }
  void operator()(OptionMap SearchSettings::*member) const {
    settings->*member = OptionsFromFields(node.value(), node.Place());
  }
};

struct ValueWriter {
  const SearchSettings& settings;

  JsonValue operator()(OptionMap SearchSettings::*member) const { return {OptionsToJson(settings.*member, false)}; }
  JsonValue operator()(auto member) const { return ToJson(settings.*member); }
};

// Calls `use` with the node at a path. False if there is none.
bool WithNode(const JsonNode& root, const std::string& path, const std::function<void(const JsonNode&)>& use) {
  const std::pair<std::string, std::string> place = ParentAndKey(path);
  bool is_there = false;
  const auto use_member = [&](const JsonNode& object) {
    const JsonValue* const value = FindMember(object.Object(), place.second);
    is_there = value != nullptr;
    if (is_there) use(JsonNode(object, std::string_view(place.second), *value));
  };
  if (place.first.empty()) {
    use_member(root);
  } else {
    WithNode(root, place.first, use_member);
  }
  return is_there;
}

}  // namespace

std::vector<std::string_view> SettingKeys(Door door) {
  static std::map<Door, std::vector<std::string>> kept;
  static const bool filled = [] {
    for (const Door each : {Door::kExperiment, Door::kSpec}) {
      std::vector<std::string>& keys = kept[each];
      for (const Setting& setting : AllSettings()) {
        const std::string path = PlaceOf(setting, each);
        const std::string key = path.substr(0, path.find('.'));
        if (setting.Has(each) && std::ranges::count(keys, key) == 0) keys.push_back(key);
      }
    }
    return true;
  }();
  EMPLACE_CHECK(filled);
  return {kept[door].begin(), kept[door].end()};
}

std::vector<std::string> SettingPaths() {
  std::vector<std::string> paths;
  for (const Setting& setting : AllSettings()) {
    if (!setting.Has(Door::kExperiment)) continue;
    std::string path = PlaceOf(setting, Door::kExperiment);
    const std::string parent = ParentAndKey(path).first;
    if (!parent.empty() && std::ranges::count(paths, parent) == 0) paths.push_back(parent);
    const bool has_options = std::holds_alternative<OptionMap SearchSettings::*>(setting.member);
    paths.push_back(path);
    if (has_options) paths.push_back(path + ".*");
  }
  return paths;
}

void ReadSettings(const JsonNode& root, Door door, SearchSettings* settings) {
  std::map<std::string, std::vector<std::string>> objects;  // keys by the path of their object
  for (const Setting& setting : AllSettings()) {
    if (!setting.Has(door)) continue;
    auto [parent, key] = ParentAndKey(PlaceOf(setting, door));
    if (!parent.empty()) objects[parent].push_back(key);
  }
  for (const auto& [parent, keys] : objects) {
    WithNode(root, parent, [&, &known = keys](const JsonNode& object) {
      const std::vector<std::string_view> views(known.begin(), known.end());
      const JsonFields refuses_unknown(object, views);
    });
  }
  for (const Setting& setting : AllSettings()) {
    if (!setting.Has(door)) continue;
    const std::string path = PlaceOf(setting, door);
    const bool is_there = WithNode(root, path, [&](const JsonNode& node) {
      std::visit(ValueReader{node, setting, door, settings}, setting.member);
    });
    if (!is_there && door == Door::kSpec && setting.is_required) {
      throw InputError(path, fmt::format("is missing ({})", HintOf(setting)));
    }
  }
  if (FindMember(root.Object(), kHardware) != nullptr) settings->measure_best = true;
}

void AddSettings(const SearchSettings& settings, JsonObject* spec) {
  for (const Setting& setting : AllSettings()) {
    if (!setting.Has(Door::kSpec)) continue;
    const bool is_written = setting.is_required || (setting.is_written != nullptr ? (settings.*setting.is_written)()
                                                                                  : IsSet(setting, settings));
    if (!is_written) continue;
    const auto [parent, key] = ParentAndKey(PlaceOf(setting, Door::kSpec));
    JsonObject* object = spec;
    if (!parent.empty()) {
      const auto found = std::ranges::find(*spec, parent, &JsonMember::key);
      if (found == spec->end()) {
        AddMember(spec, parent, JsonValue{JsonObject{}});
        object = &std::get<JsonObject>(spec->back().value.data);
      } else {
        object = &std::get<JsonObject>(found->value.data);
      }
    }
    AddMember(object, key, std::visit(ValueWriter{settings}, setting.member));
  }
}

}  // namespace emplace::agents
