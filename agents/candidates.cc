#include "agents/candidates.h"

#include <limits>

#include "sim/base/check.h"

namespace emplace::agents {

std::vector<DeviceId> AllDevices(const Cluster& cluster) {
  std::vector<DeviceId> devices;
  for (std::size_t d = 0; d < cluster.num_devices(); ++d) devices.push_back(MakeId<DeviceId>(d));
  return devices;
}

std::vector<DeviceId> Candidates(const Observation& observation, std::size_t group, std::span<const DeviceId> devices) {
  std::vector<DeviceId> candidates;
  for (const DeviceId device : devices) {
    if (observation.Allowed(group, Index(device))) candidates.push_back(device);
  }
  if (candidates.empty()) {
    for (std::size_t d = 0; d < observation.num_devices(); ++d) {
      if (observation.Allowed(group, d)) candidates.push_back(MakeId<DeviceId>(d));
    }
  }
  EMPLACE_CHECK(!candidates.empty());
  return candidates;
}

std::vector<std::vector<DeviceId>> SearchDevices(const Observation& observation, bool use_cpus) {
  const std::vector<DeviceId> all = use_cpus ? AllDevices(observation.cluster) : observation.accelerators;
  std::vector<std::vector<DeviceId>> devices;
  for (std::size_t group = 0; group < observation.num_groups(); ++group) {
    devices.push_back(Candidates(observation, group, all));
  }
  return devices;
}

std::vector<std::uint8_t> MaskOf(std::span<const DeviceId> devices, std::size_t num_devices) {
  std::vector<std::uint8_t> mask(num_devices);
  for (const DeviceId device : devices) mask[Index(device)] = 1;
  return mask;
}

Placement OnOneOf(const Observation& observation, std::span<const DeviceId> devices) {
  DeviceId best = devices[0];
  double least = std::numeric_limits<double>::infinity();
  for (const DeviceId device : devices) {
    double total = 0;
    for (std::size_t group = 0; group < observation.num_groups(); ++group) {
      const std::size_t place = Index(observation.Fastest(group, {&device, 1}));
      total += observation.TimeMicros(group, place);
    }
    if (total < least) {
      least = total;
      best = device;
    }
  }
  Placement placement(observation.num_groups());
  for (std::size_t group = 0; group < observation.num_groups(); ++group) {
    placement[MakeId<OpId>(group)] = observation.Fastest(group, {&best, 1});
  }
  return placement;
}

Placement OnFirstAccelerator(const Observation& observation) {
  return OnOneOf(observation, {observation.accelerators.data(), 1});
}

Placement StartOf(const Environment& env) {
  return env.start() ? *env.start() : OnOneOf(env.observation(), env.observation().accelerators);
}

}  // namespace emplace::agents
