#include "agents/heuristics/m_etf.h"

#include "agents/heuristics/list_scheduler.h"
#include "agents/heuristics/one_shot.h"
#include "agents/heuristics/solver_input.h"

namespace emplace {

Placement PlaceByMEtf(const Observation& observation, const MEtfOptions& options) {
  const auto devices = options.use_cpus ? AllDevices(observation.cluster) : observation.accelerators;
  return ScheduleEarliestFirst(observation, devices, {}).placement;
}

std::unique_ptr<Agent> MakeMEtfAgent(OptionReader& reader, const AgentContext&) {
  MEtfOptions options;
  reader.Read("use_cpus", &options.use_cpus, "CPUs take groups that accelerators could take too");
  reader.Finish();
  return MakeOneShot([options](const Environment& env, Rng&) { return PlaceByMEtf(env.observation(), options); });
}

}  // namespace emplace
