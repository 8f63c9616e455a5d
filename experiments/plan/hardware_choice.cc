#include "experiments/plan/hardware_choice.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "sim/base/check.h"

namespace emplace::experiments {

profiler::HardwareOptions HardwareOptionsOf(const agents::SearchSettings& settings) {
  using Statistic = profiler::HardwareOptions::Statistic;
  profiler::HardwareOptions options;
  options.warmups = settings.warmups;
  options.steps = settings.steps;
  options.statistic = *EnumOfName<Statistic>(settings.statistic);
  options.patience_seconds = settings.patience;
  options.interleave = settings.interleave;
  return options;
}

void CheckRealDevices(const Cluster& cluster) {
  for (const Device& device : cluster.devices()) {
    const std::string kind = WithLocation("cluster", [&] { return profiler::TorchHardware().KindOf(device.name); });
    if (kind != device.kind) {
      throw InputError("cluster",
                       fmt::format("device {} is of kind {}, the real one is {}", device.name, device.kind, kind));
    }
  }
}

ClusterHardware::ClusterHardware(const Graph& graph, const Cluster& cluster, const profiler::HardwareOptions& options) {
  CheckRealDevices(cluster);
  std::vector<profiler::HardwareDevice*> used;
  for (const Device& device : cluster.devices()) {
    devices_.push_back(WithLocation("cluster", [&] { return profiler::TorchHardware().Open(device.name); }));
    used.push_back(devices_.back().get());
  }
  runner_ = std::make_unique<profiler::HardwareRunner>(graph, cluster, std::move(used), options);
}

}  // namespace emplace::experiments
