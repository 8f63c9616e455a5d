#include "agents/heuristics/m_topo.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "agents/heuristics/one_shot.h"
#include "agents/heuristics/solver_input.h"

namespace emplace {

Placement PlaceByMTopo(const Observation& observation, const MTopoOptions& options) {
  const std::vector<DeviceId>& devices = observation.accelerators;
  std::int64_t sum = 0;
  std::int64_t largest = 0;
  for (std::size_t group = 0; group < observation.num_groups(); ++group) {
    sum += GroupBytes(observation, group);
    largest = std::max(largest, GroupBytes(observation, group));
  }
  const std::int64_t share = sum / static_cast<std::int64_t>(devices.size()) + largest;
  const auto limit = [&](std::size_t i) {
    return options.uniform ? share : Capacity(observation.cluster.device(devices[i]));
  };

  Placement placement(observation.num_groups());
  std::size_t current = 0;
  std::int64_t used = 0;
  for (std::size_t group = 0; group < observation.num_groups(); ++group) {
    DeviceId& place = placement[MakeId<OpId>(group)];
    if (!observation.Allowed(group, Index(devices[current]))) {
      place = observation.Fastest(group, devices);
      continue;
    }
    const std::int64_t bytes = GroupBytes(observation, group);
    while (current + 1 < devices.size() && bytes > limit(current) - used) {
      ++current;
      used = 0;
    }
    const bool stays = observation.Allowed(group, Index(devices[current]));
    place = stays ? devices[current] : observation.Fastest(group, devices);
    if (stays) used += bytes;
  }
  return placement;
}

std::unique_ptr<Agent> MakeMTopoAgent(OptionReader& reader, const AgentContext&) {
  MTopoOptions options;
  reader.Read("uniform", &options.uniform, "fill accelerators to equal shares of memory, not to their capacity");
  reader.Finish();
  return MakeOneShot([options](const Environment& env, Rng&) { return PlaceByMTopo(env.observation(), options); });
}

}  // namespace emplace
