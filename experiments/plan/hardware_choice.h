#ifndef EMPLACE_EXPERIMENTS_PLAN_HARDWARE_CHOICE_H_
#define EMPLACE_EXPERIMENTS_PLAN_HARDWARE_CHOICE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "agents/settings.h"
#include "profiler/execute/hardware_runner.h"
#include "profiler/hardware.h"
#include "sim/base/json_struct.h"
#include "sim/cluster.h"
#include "sim/graph.h"

namespace emplace::experiments {}  // namespace emplace::experiments

namespace emplace {

template <>
struct EnumNames<profiler::HardwareOptions::Statistic> {
  using Statistic = profiler::HardwareOptions::Statistic;
  static constexpr std::pair<Statistic, std::string_view> kNames[] = {{Statistic::kMedian, "median"},
                                                                      {Statistic::kMean, "mean"}};
  static constexpr std::string_view kAllowed = "median or mean";
};

}  // namespace emplace

namespace emplace::experiments {

// How the settings measure steps. Requires: they pass CheckSettings.
profiler::HardwareOptions HardwareOptionsOf(const agents::SearchSettings& settings);

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
