#include "experiments/spec/hardware_choice.h"

#include <fmt/format.h>

#include <utility>

#include "sim/base/check.h"

namespace emplace::experiments {

ClusterHardware::ClusterHardware(const Graph& graph, const Cluster& cluster, const profiler::HardwareOptions& options) {
  std::vector<profiler::HardwareDevice*> used;
  for (const Device& device : cluster.devices()) {
    try {
      devices_.push_back(profiler::TorchHardware().Open(device.name));
    } catch (const InputError& error) {
      throw error.In("cluster");
    }
    if (devices_.back()->kind() != device.kind) {
      throw InputError("cluster", fmt::format("device {} is of kind {}, the real one is {}", device.name, device.kind,
                                              devices_.back()->kind()));
    }
    used.push_back(devices_.back().get());
  }
  runner_ = std::make_unique<profiler::HardwareRunner>(graph, cluster, std::move(used), options);
}

}  // namespace emplace::experiments
