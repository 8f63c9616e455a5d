#include "agents/heuristics/m_sct.h"

#include <string>

#include "agents/heuristics/favourite_children.h"
#include "agents/heuristics/list_scheduler.h"
#include "agents/heuristics/solver_input.h"
#include "sim/check.h"

namespace emplace {

Placement PlaceByMSct(const Observation& observation, const MSctOptions& options) {
  const std::size_t num_groups = observation.num_groups();
  if (num_groups > kMaxGroupsOfMSct) {
    throw InputError("m_sct", "its linear program takes up to " + std::to_string(kMaxGroupsOfMSct) +
                                  " groups, and these are " + std::to_string(num_groups) +
                                  "; use the grouping merge_and_colocate");
  }
  const auto devices = options.use_cpus ? AllDevices(observation.cluster) : observation.accelerators;
  const CommunicationPlan plan = PlanCommunication(observation, devices);
  return ScheduleEarliestFirst(observation, devices, FavouriteChildren(plan, num_groups, options.threshold)).placement;
}

}  // namespace emplace
