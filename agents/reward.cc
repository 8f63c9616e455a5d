#include "agents/reward.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "sim/check.h"

namespace emplace {
namespace {

// The step time in seconds; that of a placement which does not fit counts as options.invalid_seconds.
double Seconds(const StepResult& result, const RewardOptions& options) {
  return result.fits_memory ? result.step_time_micros * 1e-6 : options.invalid_seconds;
}

double Runtime(const StepResult& result, const RewardOptions& options) { return -Seconds(result, options); }

double Sqrt(const StepResult& result, const RewardOptions& options) { return -std::sqrt(Seconds(result, options)); }

// A step of no time at all would be infinitely good: times below 1 ns count as 1 ns.
double LogSeconds(const StepResult& result) { return std::log(std::max(result.step_time_micros * 1e-6, 1e-9)); }

double LogRuntime(const StepResult& result, const RewardOptions&) { return -LogSeconds(result); }

double Penalty(const StepResult& result, const RewardOptions& options) {
  Bytes peak;
  for (const Bytes device : result.peak_memory) peak = std::max(peak, device);
  const double over = static_cast<double>(peak.count) / 1e9 - options.penalty_threshold_gb;
  return options.penalty_seconds_per_gb * std::max(0.0, over);
}

double MemoryPenalty(const StepResult& result, const RewardOptions& options) {
  return -(result.step_time_micros * 1e-6 + Penalty(result, options));
}

// The published code adds the penalty, in seconds, to a logarithm, and cuts the sum at 10.
double LogMemoryPenalty(const StepResult& result, const RewardOptions& options) {
  return -std::min(LogSeconds(result) + Penalty(result, options), 10.0);
}

}  // namespace

std::span<const RewardEntry> AllRewards() {
  static constexpr std::array<RewardEntry, 5> kRewards = {{
      {"runtime", "-(step time in s); 100 s if it does not fit.", "Gao et al. 2018 (Post), section 4", Runtime},
      {"sqrt", "-sqrt(step time in s); -10 if it does not fit.", "Mirhoseini et al. 2018 (Hierarchical Planner), 2",
       Sqrt},
      {"log_runtime", "-log(step time in s); memory does not matter.",
       "Mitropolitsky et al. 2020 (thesis code, log-runtime)", LogRuntime},
      {"memory_penalty", "-(step time in s + 2 s for each GB of the largest peak above 10.7 GB); never invalid.",
       "Addanki et al. 2019 (Placeto), A.7", MemoryPenalty, true},
      {"log_memory_penalty", "-min(log(step time in s) + 2 for each GB of the largest peak above 10.7 GB, 10).",
       "Addanki et al. 2019 (Placeto), their code's log-runtime with a memory penalty", LogMemoryPenalty, true},
  }};
  return kRewards;
}

const RewardEntry& FindReward(std::string_view name) {
  std::string known;
  for (const RewardEntry& entry : AllRewards()) {
    if (entry.name == name) return entry;
    known.append(known.empty() ? "" : ", ").append(entry.name);
  }
  throw InputError("", "unknown reward \"" + std::string(name) + "\" (" + known + ")");
}

}  // namespace emplace
