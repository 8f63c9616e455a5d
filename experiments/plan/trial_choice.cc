#include "experiments/plan/trial_choice.h"

#include <utility>

#include "sim/base/check.h"
#include "sim/base/json_build.h"

namespace emplace::experiments {

JsonValue TrialChoiceToJson(const TrialChoice& choice) {
  JsonObject json;
  AddMember(&json, "schema", kSpecSchema);
  AddMember(&json, "version", 1);
  for (JsonMember& member : FieldsToJson(choice)) json.push_back(std::move(member));
  return {std::move(json)};
}

TrialChoice ReadTrialChoice(const JsonValue& spec) {
  const JsonNode root(spec);
  CheckSchema(root, kSpecSchema);
  auto choice = ReadFields<TrialChoice>(root, {"schema", "version"});
  if (choice.hardware) choice.hardware->best = true;
  return choice;
}

void RefuseSeveralGraphs(bool together, bool transfer) {
  if (!together && !transfer) return;
  throw InputError(together ? "graphs.together" : "transfer", "does not go with real devices (one graph at a time)");
}

}  // namespace emplace::experiments
