#include "experiments/plan/hardware_choice.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "sim/base/check.h"

namespace emplace::experiments {

void CheckRealDevices(const Cluster& cluster) {
  for (const Device& device : cluster.devices()) {
    const std::string kind = AtPlace("cluster", [&] { return profiler::TorchHardware().KindOf(device.name); });
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
    devices_.push_back(AtPlace("cluster", [&] { return profiler::TorchHardware().Open(device.name); }));
    used.push_back(devices_.back().get());
  }
  runner_ = std::make_unique<profiler::HardwareRunner>(graph, cluster, std::move(used), options);
}

}  // namespace emplace::experiments
