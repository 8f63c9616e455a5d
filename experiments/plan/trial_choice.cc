#include "experiments/plan/trial_choice.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "agents/settings_json.h"
#include "sim/base/check.h"
#include "sim/base/json_build.h"

namespace emplace::experiments {

namespace {

// The settings that a spec begins with; the others follow in the order of AllSettings().
constexpr std::string_view kFirstKeys[] = {"schema",   "version",     "experiment", "graph",
                                           "together", "transfer",    "grouping",   "cluster",
                                           "engine",   "collectives", "costs",      "profile_fingerprint"};

}  // namespace

JsonValue TrialChoiceToJson(const TrialChoice& choice) {
  JsonObject json;
  AddMember(&json, "schema", kSpecSchema);
  AddMember(&json, "version", 1);
  for (JsonMember& member : FieldsToJson(choice)) json.push_back(std::move(member));
  agents::AddSettings(choice, &json);
  const auto position = [](const JsonMember& member) {
    return std::ranges::find(kFirstKeys, member.key) - std::begin(kFirstKeys);
  };
  std::ranges::stable_sort(json, {}, position);
  return {std::move(json)};
}

TrialChoice ReadTrialChoice(const JsonValue& spec) {
  const JsonNode root(spec);
  CheckSchema(root, kSpecSchema);
  auto choice = ReadFields<TrialChoice>(root, {"schema", "version"}, agents::SettingKeys(agents::Door::kSpec));
  agents::ReadSettings(root, agents::Door::kSpec, &choice);
  agents::CheckSettings(choice, agents::Door::kSpec);
  choice.settings() = agents::Resolved(choice.settings());
  return choice;
}

void RefuseSeveralGraphs(bool together, bool transfer) {
  if (!together && !transfer) return;
  throw InputError(together ? "graphs.together" : "transfer", "cannot be used with real devices (one graph at a time)");
}

}  // namespace emplace::experiments
