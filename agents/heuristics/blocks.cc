#include "agents/heuristics/blocks.h"

#include <algorithm>
#include <vector>

#include "agents/heuristics/one_shot.h"
#include "agents/heuristics/solver_input.h"

namespace emplace {

std::unique_ptr<Agent> MakeBlocksAgent(OptionReader& reader, const AgentContext&) {
  reader.Finish();
  return MakeOneShot([](const Environment& env, Rng&) { return PlaceInBlocks(env.observation()); });
}

Placement PlaceInBlocks(const Observation& seen) {
  std::vector<double> micros;
  double total = 0;
  for (std::size_t group = 0; group < seen.num_groups(); ++group) {
    micros.push_back(MeanMicros(seen, group, Candidates(seen, group, seen.accelerators)));
    total += micros.back();
  }
  const auto devices = static_cast<double>(seen.accelerators.size());
  Placement placement(seen.num_groups());
  double before = 0;
  for (std::size_t group = 0; group < seen.num_groups(); ++group) {
    // The block that holds the middle of the group's time.
    const double part = total > 0 ? (before + micros[group] / 2) / total : 0;
    const auto block = static_cast<std::size_t>(std::clamp(part * devices, 0.0, devices - 1));
    const DeviceId device = seen.accelerators[block];
    placement[MakeId<OpId>(group)] =
        seen.Allowed(group, Index(device)) ? device : seen.Fastest(group, seen.accelerators);
    before += micros[group];
  }
  return placement;
}

}  // namespace emplace
