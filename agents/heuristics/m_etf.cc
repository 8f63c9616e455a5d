#include "agents/heuristics/m_etf.h"

#include "agents/heuristics/list_scheduler.h"
#include "agents/heuristics/solver_input.h"

namespace emplace {

Placement PlaceByMEtf(const Observation& observation, const MEtfOptions& options) {
  const auto devices = options.use_cpus ? AllDevices(observation.cluster) : observation.accelerators;
  return ScheduleEarliestFirst(observation, devices, {}).placement;
}

}  // namespace emplace
