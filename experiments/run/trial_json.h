#ifndef EMPLACE_EXPERIMENTS_RUN_TRIAL_JSON_H_
#define EMPLACE_EXPERIMENTS_RUN_TRIAL_JSON_H_

#include <optional>
#include <string>
#include <string_view>

#include "agents/search.h"
#include "experiments/run/trial_record.h"
#include "sim/base/json_value.h"

namespace emplace::experiments {

// The content of trial.json: results determined by the seed. `id` is the trial's, `spec_json` the content of its
// spec.json, `placement` that of best_placement.json ("" if there is none).
JsonValue TrialToJson(const std::string& id, const JsonValue& spec_json, const agents::SearchSpec& spec,
                      const agents::SearchResult& result, std::string_view placement);
// The content of timing.json: measured times.
JsonValue TimingToJson(const agents::SearchResult& result, const std::optional<MeasuredSteps>& measured);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_RUN_TRIAL_JSON_H_
