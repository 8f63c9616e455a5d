#include "agents/heuristics/m_sct.h"

#include <string>

#include "agents/heuristics/favourite_children.h"
#include "agents/heuristics/list_scheduler.h"
#include "agents/heuristics/one_shot.h"
#include "agents/heuristics/solver_input.h"
#include "sim/base/check.h"

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

std::unique_ptr<Agent> MakeMSctAgent(OptionReader& reader, const AgentContext&) {
  MSctOptions options;
  reader.Read("threshold", &options.threshold, 0.0, 1.0, "a consumer whose x is below it is a favourite child");
  reader.Read("use_cpus", &options.use_cpus, "CPUs take groups that accelerators could take too");
  reader.Finish();
  return MakeOneShot([options](const Environment& env, Rng&) { return PlaceByMSct(env.observation(), options); });
}

}  // namespace emplace
