#include "agents/reward.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <string>
#include <system_error>

#include <fmt/format.h>

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

double& ValueOf(const RewardEntry& entry, std::string_view key, RewardOptions* options) {
  if (entry.keys == "c, M") {
    if (key == "c") return options->penalty_seconds_per_gb;
    if (key == "M") return options->penalty_threshold_gb;
  } else if (entry.keys == "invalid" && key == "invalid") {
    return options->invalid_seconds;
  }
  throw InputError("", fmt::format("reward {} has no option \"{}\" ({})", entry.name, key,
                                   entry.keys.empty() ? "it has none" : entry.keys));
}

double ParseNumber(std::string_view key, std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value) || value < 0) {
    throw InputError("",
                     fmt::format("option {} of the reward is \"{}\"; a number of at least 0 is expected", key, text));
  }
  return value;
}

}  // namespace

std::span<const RewardEntry> AllRewards() {
  static constexpr std::array<RewardEntry, 5> kRewards = {{
      {"runtime", "-(step time in s); `invalid` s, 100, if it does not fit.", "Gao et al. 2018 (Post), section 4",
       Runtime, "invalid"},
      {"sqrt", "-sqrt(step time in s); that of `invalid` s, 100, if it does not fit.",
       "Mirhoseini et al. 2018 (Hierarchical Planner), 2", Sqrt, "invalid"},
      {"log_runtime", "-log(step time in s); memory does not matter.",
       "Mitropolitsky et al. 2020 (thesis code, log-runtime)", LogRuntime, ""},
      {"memory_penalty",
       "-(step time in s + c = 2 s for each GB of the largest peak above M = 10.7 GB); never invalid.",
       "Addanki et al. 2019 (Placeto), A.7", MemoryPenalty, "c, M", true},
      {"log_memory_penalty", "-min(log(step time in s) + c = 2 for each GB of the largest peak above M = 10.7 GB, 10).",
       "Addanki et al. 2019 (Placeto), their code's log-runtime with a memory penalty", LogMemoryPenalty, "c, M", true},
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

RewardOptions ParseReward(std::string_view text) {
  const std::size_t colon = text.find(':');
  const RewardEntry& entry = FindReward(text.substr(0, colon));
  RewardOptions options{.name = entry.name};
  if (colon == std::string_view::npos) return options;
  for (std::string_view rest = text.substr(colon + 1);;) {
    const std::string_view member = rest.substr(0, rest.find(','));
    const std::size_t equals = std::min(member.find('='), member.size());
    const std::string_view key = member.substr(0, equals);
    double& value = ValueOf(entry, key, &options);
    value = ParseNumber(key, member.substr(std::min(equals + 1, member.size())));
    if (member.size() == rest.size()) return options;
    rest.remove_prefix(member.size() + 1);
  }
}

}  // namespace emplace
