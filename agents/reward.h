#ifndef EMPLACE_AGENTS_REWARD_H_
#define EMPLACE_AGENTS_REWARD_H_

#include <span>
#include <string_view>

#include "sim/base/options.h"
#include "sim/cluster.h"
#include "sim/evaluator.h"

namespace emplace::agents {

// How an agent's reward is computed from a step result. Larger is better.
struct RewardOptions {
  std::string_view name = "runtime";   // a name of AllRewards()
  double penalty_seconds_per_gb = 2;   // memory_penalty: c
  double penalty_threshold_gb = 10.7;  // memory_penalty: M
  double invalid_seconds = 100;        // invalid: step time used for a placement that does not fit
};

// A row of `emplace list rewards`.
struct RewardEntry {
  std::string_view name;
  std::string_view summary;
  std::string_view source;
  double (*reward)(const StepResult& result, const RewardOptions& options);
  void (*read)(OptionReader& reader, RewardOptions* options) = nullptr;  // its own options
  bool needs_peak_memory = false;                                        // even if no device has a memory limit
};
std::span<const RewardEntry> AllRewards();
// Throws InputError that lists the known names.
const RewardEntry& FindReward(std::string_view name);

// NAME, or NAME:KEY=VALUE,KEY=VALUE with the reward's own options; the name is the row's. Throws InputError.
RewardOptions ParseReward(std::string_view text);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_REWARD_H_
