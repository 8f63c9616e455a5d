#ifndef EMPLACE_AGENTS_SETTINGS_JSON_H_
#define EMPLACE_AGENTS_SETTINGS_JSON_H_

#include <string_view>
#include <vector>

#include "agents/settings.h"
#include "sim/base/json_fields.h"
#include "sim/base/json_value.h"

namespace emplace::agents {

// Settings in experiments and in spec.json (Door::kExperiment and Door::kSpec), each at its PlaceOf.

// The keys of the root under which settings are; "graphs" in an experiment, which has other keys too, among them.
std::vector<std::string_view> SettingKeys(Door door);
// The key paths that settings have in experiments, and those of the objects that hold them.
std::vector<std::string> SettingPaths();

// Reads the settings that the root has, and refuses keys that no setting has in an object of settings. Throws
// InputError on a value of another type, on a number out of range and, at kSpec, where one is missing.
void ReadSettings(const JsonNode& root, Door door, SearchSettings* settings);

// Adds the settings that a spec.json has.
void AddSettings(const SearchSettings& settings, JsonObject* spec);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_SETTINGS_JSON_H_
