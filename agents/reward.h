#ifndef EMPLACE_AGENTS_REWARD_H_
#define EMPLACE_AGENTS_REWARD_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/options.h"
#include "sim/base/units.h"
#include "sim/cluster.h"
#include "sim/evaluator.h"

namespace emplace::agents {

// The value of the option M that means the memory of each device.
inline constexpr std::string_view kCapacity = "capacity";

// How an agent's reward is computed from a step result. Larger is better.
struct RewardOptions {
  std::string_view name = "runtime";                // a name of AllRewards()
  double penalty_seconds_per_gb = 2;                // memory_penalty: c
  std::optional<double> penalty_threshold_gb = {};  // memory_penalty: M; none: that of `memory`
  double invalid_seconds = 100;                     // invalid: step time used for a placement that does not fit
  std::vector<std::optional<Bytes>> memory = {};    // capacity of each device, for M; none: no limit
};

// A row of `emplace list rewards`.
struct RewardEntry {
  std::string_view name;
  std::string_view summary;
  std::string_view source;
  double (*reward)(const StepResult& result, const RewardOptions& options);
  void (*read)(OptionReader& reader, RewardOptions* options) = nullptr;  // its own options
  bool needs_peak_memory = false;                                        // even if no device has a memory limit
  // What rewards fall to and no further, however long the step and however much does not fit. An agent learns nothing
  // from placements that all have it.
  double floor = -std::numeric_limits<double>::infinity();
};
std::span<const RewardEntry> AllRewards();
// Throws InputError that lists the known names.
const RewardEntry& FindReward(std::string_view name);

// NAME, or NAME:KEY=VALUE,KEY=VALUE with the reward's own options; the name is the row's. `memory` is left empty.
// Throws InputError.
RewardOptions ParseReward(std::string_view text);

// `text` with M=VALUE where its reward has the option M and `text` does not give it. Throws InputError as ParseReward.
std::string WithPenaltyMemory(std::string_view text, std::string_view value);

// The capacity of each device of the cluster.
std::vector<std::optional<Bytes>> MemoryOf(const Cluster& cluster);

// The cost of a placement in an environment that an agent steps through: its step time as a part of a baseline's, and a
// penalty for what exceeds memory. The rewards of such an environment are by how much its steps lower the cost.
struct RelativeCost {
  std::vector<std::optional<Bytes>> memory = {};  // capacity of each device; none: no limit
  double baseline_micros = 1;
  double memory_penalty = 10;  // the cost of exceeding memory by all that the smallest device has

  std::optional<Bytes> SmallestMemory() const;  // none: no device has a limit, so peaks do not matter
  // The bytes by which the peaks, one for each device, exceed memory in total.
  double Overflow(std::span<const std::int64_t> peak_bytes) const;
  double Cost(std::int64_t step_ns, double overflow) const;
};

// The step time that counts for a placement that does not fit, in us; none: the reward has no such time.
std::optional<double> InvalidMicros(const RewardOptions& options);

// Whether more than half of the evaluations had a reward at its floor.
bool IsMostlySaturated(std::size_t saturated, std::size_t evaluations);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_REWARD_H_
