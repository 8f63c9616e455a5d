#include "experiments/hardware_reward.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "sim/check.h"

namespace emplace {
bool RewardEvaluator::IsMeasured(std::size_t evaluation) const {
  if (choice_.source != RewardSource::kMixed) return choice_.source == RewardSource::kHardware;
  const auto i = static_cast<double>(evaluation);
  return std::floor(i * choice_.share) > std::floor((i - 1) * choice_.share);
}

StepResult RewardEvaluator::Run(const Placement& placement) const {
  const std::lock_guard lock(mutex_);
  ++evaluations_;
  StepResult simulated = simulator_.Run(placement);
  bool measured = IsMeasured(evaluations_);
  if (simulated.fits_memory && (!best_micros_ || simulated.step_time_micros < *best_micros_)) {
    best_micros_ = simulated.step_time_micros;
    ++bests_;
    measured = measured || (choice_.validate_every > 0 && bests_ % choice_.validate_every == 0);
  }
  if (!measured) return simulated;
  StepResult real = hardware_.Run(placement);
  checks_.push_back({.evaluation = evaluations_,
                     .simulated_micros = simulated.step_time_micros,
                     .measured_micros = real.fits_memory ? std::optional(real.step_time_micros) : std::nullopt});
  return choice_.source == RewardSource::kSimulator ? simulated : real;
}

ClusterHardware::ClusterHardware(const Graph& graph, const Cluster& cluster, const HardwareOptions& options) {
  std::vector<HardwareDevice*> used;
  for (const Device& device : cluster.devices()) {
    try {
      devices_.push_back(TorchHardware().Open(device.name));
    } catch (const InputError& error) {
      throw error.In("cluster");
    }
    if (devices_.back()->kind() != device.kind) {
      throw InputError("cluster", fmt::format("device {} is of kind {}, the real one is {}", device.name, device.kind,
                                              devices_.back()->kind()));
    }
    used.push_back(devices_.back().get());
  }
  runner_ = std::make_unique<HardwareRunner>(graph, cluster, std::move(used), options);
}

}  // namespace emplace
