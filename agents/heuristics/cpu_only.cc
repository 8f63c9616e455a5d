#include "agents/heuristics/cpu_only.h"

#include <vector>

#include "agents/heuristics/one_shot.h"
#include "agents/heuristics/score.h"
#include "sim/base/check.h"

namespace emplace {

std::unique_ptr<Agent> MakeCpuOnlyAgent(OptionReader& reader, const AgentContext&) {
  reader.Finish();
  return MakeOneShot([](const Environment& env, Rng&) {
    const Observation& seen = env.observation();
    std::vector<DeviceId> cpus;
    for (std::size_t d = 0; d < seen.num_devices(); ++d) {
      if (seen.cluster.devices()[d].is_cpu) cpus.push_back(MakeId<DeviceId>(d));
    }
    if (cpus.empty()) throw InputError("cpu_only", "cluster " + seen.cluster.name() + " has no CPU");
    return OnOneOf(seen, cpus);
  });
}

}  // namespace emplace
