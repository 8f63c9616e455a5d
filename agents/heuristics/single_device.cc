#include "agents/heuristics/single_device.h"

#include "agents/heuristics/one_shot.h"
#include "agents/heuristics/score.h"
#include "sim/base/check.h"

namespace emplace {

std::unique_ptr<Agent> MakeSingleDeviceAgent(OptionReader& reader, const AgentContext&) {
  std::string name;
  reader.Read("device", &name, {}, "the device's name; empty: the accelerator where all groups together are fastest");
  reader.Finish();
  return MakeOneShot([name](const Environment& env, Rng&) {
    const Observation& seen = env.observation();
    if (name.empty()) return OnOneOf(seen, seen.accelerators);
    const auto device = seen.cluster.FindDevice(name);
    if (!device) throw InputError("single_device.device", "unknown device \"" + name + "\"");
    return OnOneOf(seen, {&*device, 1});
  });
}

}  // namespace emplace
