#ifndef EMPLACE_EXPERIMENTS_PLAN_HARDWARE_CHOICE_H_
#define EMPLACE_EXPERIMENTS_PLAN_HARDWARE_CHOICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "profiler/execute/hardware_runner.h"
#include "profiler/hardware.h"
#include "sim/base/json_struct.h"
#include "sim/cluster.h"
#include "sim/graph.h"

namespace emplace::experiments {

// The source of rewards during a search.
enum class RewardSource : std::uint8_t { kSimulator, kHardware, kMixed };

}  // namespace emplace::experiments

namespace emplace {

template <>
struct EnumNames<experiments::RewardSource> {
  using Source = experiments::RewardSource;
  static constexpr std::pair<Source, std::string_view> kNames[] = {
      {Source::kSimulator, "simulator"}, {Source::kHardware, "hardware"}, {Source::kMixed, "mixed"}};
  static constexpr std::string_view kAllowed = "simulator, hardware or mixed";
};
template <>
struct EnumNames<profiler::HardwareOptions::Statistic> {
  using Statistic = profiler::HardwareOptions::Statistic;
  static constexpr std::pair<Statistic, std::string_view> kNames[] = {{Statistic::kMedian, "median"},
                                                                      {Statistic::kMean, "mean"}};
  static constexpr std::string_view kAllowed = "median or mean";
};

}  // namespace emplace

namespace emplace::experiments {

struct HardwareChoice {
  RewardSource source = RewardSource::kSimulator;
  double share = 0.1;              // of evaluations that `mixed` measures on hardware; in (0, 1)
  std::size_t validate_every = 0;  // one new best placement in this many is measured; 0: none
  profiler::HardwareOptions options = {.warmups = 1, .steps = 3, .patience_seconds = 1};
  bool best = false;  // measure the best placement at the end; always done if hardware is used

  bool NeedsHardware() const { return best || source != RewardSource::kSimulator || validate_every > 0; }

  // The fields in a spec.
  static void Fields(auto& visit, auto& self) {
    constexpr std::string_view kSteps = "a number of steps";
    visit("reward_source", self.source, {.needed = EnumNames<RewardSource>::kAllowed});
    visit("share", self.share, {.optional = true, .written = self.source == RewardSource::kMixed, .high = 1});
    visit("validate_every", self.validate_every, {.needed = "a number of placements"});
    visit("warmups", self.options.warmups, {.needed = kSteps});
    visit("steps", self.options.steps, {.needed = kSteps});
    visit("statistic", self.options.statistic, {.needed = EnumNames<profiler::HardwareOptions::Statistic>::kAllowed});
    visit("patience", self.options.patience_seconds, {.optional = true, .high = 3600});
    visit("interleave", self.options.interleave, {.optional = true, .written = self.options.interleave});
  }
};

// Throws InputError, its place "cluster", if a device of the cluster (cpu:0, cuda:0) is not on this machine, or is of a
// different kind than in the cluster. No device is made ready for work.
void CheckRealDevices(const Cluster& cluster);

// The real devices named in a cluster, and a runner on them.
class ClusterHardware {
 public:
  // Throws InputError as CheckRealDevices.
  ClusterHardware(const Graph& graph, const Cluster& cluster, const profiler::HardwareOptions& options);
  const profiler::HardwareRunner& runner() const { return *runner_; }

 private:
  std::vector<std::unique_ptr<profiler::HardwareDevice>> devices_;
  std::unique_ptr<profiler::HardwareRunner> runner_;
};

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_PLAN_HARDWARE_CHOICE_H_
