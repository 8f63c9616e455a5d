#ifndef EMPLACE_EXPERIMENTS_SPEC_HARDWARE_CHOICE_H_
#define EMPLACE_EXPERIMENTS_SPEC_HARDWARE_CHOICE_H_

#include <cstddef>
#include <optional>
#include <string_view>

#include "profiler/execute/hardware_runner.h"

namespace emplace {

// Where rewards come from while an agent searches.
enum class RewardSource { kSimulator, kHardware, kMixed };
std::string_view Name(RewardSource source);
std::optional<RewardSource> RewardSourceFromName(std::string_view name);

struct HardwareChoice {
  RewardSource source = RewardSource::kSimulator;
  double share = 0.1;              // of the evaluations that `mixed` runs for real; in (0, 1)
  std::size_t validate_every = 0;  // every so many new best placements one is run for real; 0: none
  HardwareOptions options = {.warmups = 1, .steps = 3, .patience_seconds = 1};
  bool best = false;  // the best placement is run for real at the end, as it is wherever there is hardware

  bool NeedsHardware() const { return best || source != RewardSource::kSimulator || validate_every > 0; }
};

// Real devices run the ops of one graph. Throws InputError if there are others to learn on or to transfer to.
void RefuseSeveralGraphs(bool together, bool transfer);

}  // namespace emplace

#endif  // EMPLACE_EXPERIMENTS_SPEC_HARDWARE_CHOICE_H_
