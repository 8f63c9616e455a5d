#include "agents/reward.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "sim/base/registry.h"

namespace emplace::agents {
namespace {

constexpr double kLargest = 1e9;  // maximum value of an option
constexpr double kMostCost = 10;  // largest cost of log_memory_penalty
constexpr std::string_view kMemory = "M";

// The step time in seconds; options.invalid_seconds if the placement does not fit.
double Seconds(const StepResult& result, const RewardOptions& options) {
  return result.fits_memory ? result.step_time_micros * 1e-6 : options.invalid_seconds;
}

double Runtime(const StepResult& result, const RewardOptions& options) { return -Seconds(result, options); }

double Sqrt(const StepResult& result, const RewardOptions& options) { return -std::sqrt(Seconds(result, options)); }

// Times below 1 ns count as 1 ns, as the reward of time 0 would be infinite.
double LogSeconds(const StepResult& result) { return std::log(std::max(result.step_time_micros * 1e-6, 1e-9)); }

double LogRuntime(const StepResult& result, const RewardOptions&) { return -LogSeconds(result); }

double Gigabytes(Bytes bytes) { return static_cast<double>(bytes.count) / 1e9; }

// The penalty of the device that exceeds M most. M is the option's, else the device's own memory. Where devices
// are alike, that is the device with the largest peak, as A.7 has it.
double Penalty(const StepResult& result, const RewardOptions& options) {
  double over = 0;
  for (std::size_t d = 0; d < result.peak_memory.size(); ++d) {
    std::optional<double> most = options.penalty_threshold_gb;
    if (!most && d < options.memory.size() && options.memory[d]) most = Gigabytes(*options.memory[d]);
    if (most) over = std::max(over, Gigabytes(result.peak_memory[d]) - *most);
  }
  return options.penalty_seconds_per_gb * over;
}

double MemoryPenalty(const StepResult& result, const RewardOptions& options) {
  return -(result.step_time_micros * 1e-6 + Penalty(result, options));
}

// The published code adds the penalty, in seconds, to a logarithm, and limits the sum.
double LogMemoryPenalty(const StepResult& result, const RewardOptions& options) {
  return -std::min(LogSeconds(result) + Penalty(result, options), kMostCost);
}

void ReadInvalid(OptionReader& reader, RewardOptions* options) {
  reader.Read("invalid", &options->invalid_seconds, 0, kLargest,
              "step time that counts for a placement that does not fit, s");
}

void ReadPenalty(OptionReader& reader, RewardOptions* options) {
  reader.Read("c", &options->penalty_seconds_per_gb, 0, kLargest, "penalty for each GB above M, s");
  reader.Read(kMemory, &options->penalty_threshold_gb, 0, kLargest, kCapacity,
              "largest peak without a penalty, GB; capacity: each device's own memory");
}

}  // namespace

std::span<const RewardEntry> AllRewards() {
  static constexpr RewardEntry kRewards[] = {
      {.name = "runtime",
       .summary = "-(step time in s); `invalid` s, 100, if it does not fit.",
       .source = "Gao et al. 2018 (Post), section 4",
       .reward = Runtime,
       .read = ReadInvalid},
      {.name = "sqrt",
       .summary = "-sqrt(step time in s); that of `invalid` s, 100, if it does not fit.",
       .source = "Mirhoseini et al. 2018 (Hierarchical Planner), 2",
       .reward = Sqrt,
       .read = ReadInvalid},
      {.name = "log_runtime",
       .summary = "-log(step time in s); memory does not matter.",
       .source = "Mitropolitsky et al. 2020 (thesis code, log-runtime)",
       .reward = LogRuntime},
      {.name = "memory_penalty",
       .summary = "-(step time in s + c = 2 s for each GB above M, the memory of the device); never invalid.",
       .source = "Addanki et al. 2019 (Placeto), A.7",
       .reward = MemoryPenalty,
       .read = ReadPenalty,
       .needs_peak_memory = true},
      {.name = "log_memory_penalty",
       .summary = "-min(log(step time in s) + c = 2 for each GB above M, the memory of the device, 10).",
       .source = "Addanki et al. 2019 (Placeto), their code's log-runtime with a memory penalty",
       .reward = LogMemoryPenalty,
       .read = ReadPenalty,
       .needs_peak_memory = true,
       .floor = -kMostCost},
  };
  return kRewards;
}

const RewardEntry& FindReward(std::string_view name) { return FindByName(AllRewards(), name, "reward"); }

RewardOptions ParseReward(std::string_view text) {
  const RewardEntry& entry = FindReward(text.substr(0, text.find(':')));  // a wrong name before wrong options
  const NamedOptions named = ParseNamedOptions(text);
  OptionReader reader(named.options, named.name);
  RewardOptions options{.name = entry.name};
  if (entry.read != nullptr) entry.read(reader, &options);
  reader.Finish();
  return options;
}

std::string WithPenaltyMemory(std::string_view text, std::string_view value) {
  const bool has_memory = FindReward(text.substr(0, text.find(':'))).read == ReadPenalty;
  if (!has_memory || ParseNamedOptions(text).options.contains(kMemory)) return std::string(text);
  const char separator = text.find(':') == std::string_view::npos ? ':' : ',';
  return fmt::format("{}{}{}={}", text, separator, kMemory, value);
}

std::vector<std::optional<Bytes>> MemoryOf(const Cluster& cluster) {
  std::vector<std::optional<Bytes>> memory;
  for (const Device& device : cluster.devices()) memory.push_back(device.memory);
  return memory;
}

std::optional<Bytes> RelativeCost::SmallestMemory() const {
  std::optional<Bytes> smallest;
  for (const std::optional<Bytes>& limit : memory) {
    if (limit) smallest = std::min(smallest.value_or(*limit), *limit);
  }
  return smallest;
}

double RelativeCost::Overflow(std::span<const std::int64_t> peak_bytes) const {
  double overflow = 0;
  for (std::size_t d = 0; d < peak_bytes.size(); ++d) {
    const std::optional<Bytes>& limit = memory[d];
    if (limit && peak_bytes[d] > limit->count) overflow += static_cast<double>(peak_bytes[d] - limit->count);
  }
  return overflow;
}

double RelativeCost::Cost(std::int64_t step_ns, double overflow) const {
  const std::int64_t unit = std::max<std::int64_t>(SmallestMemory().value_or(Bytes{1}).count, 1);
  return static_cast<double>(step_ns) / (1000 * baseline_micros) +
         memory_penalty * (overflow / static_cast<double>(unit));
}

std::optional<double> InvalidMicros(const RewardOptions& options) {
  if (FindReward(options.name).read != ReadInvalid) return std::nullopt;
  return options.invalid_seconds * 1e6;
}

bool IsMostlySaturated(std::size_t saturated, std::size_t evaluations) { return saturated > evaluations / 2; }

}  // namespace emplace::agents
