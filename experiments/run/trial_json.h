#ifndef EMPLACE_EXPERIMENTS_RUN_TRIAL_JSON_H_
#define EMPLACE_EXPERIMENTS_RUN_TRIAL_JSON_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/run/hardware_reward.h"
#include "experiments/run/trial.h"
#include "sim/base/json_value.h"

namespace emplace {

// The content of trial.json, `emplace.trial`: what the seed determines. `id` is the trial's, `spec_json` the content of
// its spec.json, `placement` that of best_placement.json ("" if there is none). Version 2 has what version 1 had, and
// `best_placement_fingerprint` (null if there is none) and `checksum` (checked_json.h).
JsonValue TrialToJson(const std::string& id, const JsonValue& spec_json, const TrialSpec& spec,
                      const TrialResult& result, std::string_view placement);

// What was run for real during the search, and the best placement once more at the end.
struct MeasuredSteps {
  std::vector<HardwareCheck> checks;
  std::optional<double> best_micros;
  std::optional<double> interleaved_micros;  // ValidationCase::interleaved of the best
};

// The content of timing.json, `emplace.timing`: what a clock measured. Version 2 has what version 1 had, and
// `checksum`.
JsonValue TimingToJson(const TrialResult& result, const std::optional<MeasuredSteps>& measured);

}  // namespace emplace

#endif  // EMPLACE_EXPERIMENTS_RUN_TRIAL_JSON_H_
