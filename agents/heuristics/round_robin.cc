#include "agents/heuristics/round_robin.h"

#include "agents/heuristics/one_shot.h"

namespace emplace {

std::unique_ptr<Agent> MakeRoundRobinAgent(OptionReader& reader, const AgentContext&) {
  reader.Finish();
  return MakeOneShot([](const Environment& env, Rng&) {
    const Observation& seen = env.observation();
    Placement placement(seen.num_groups());
    for (std::size_t group = 0; group < seen.num_groups(); ++group) {
      const DeviceId turn = seen.accelerators[group % seen.accelerators.size()];
      placement[MakeId<OpId>(group)] = seen.Allowed(group, Index(turn)) ? turn : seen.Fastest(group, seen.accelerators);
    }
    return placement;
  });
}

}  // namespace emplace
