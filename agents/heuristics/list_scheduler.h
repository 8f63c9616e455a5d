#ifndef EMPLACE_AGENTS_HEURISTICS_LIST_SCHEDULER_H_
#define EMPLACE_AGENTS_HEURISTICS_LIST_SCHEDULER_H_

#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "agents/environment.h"
#include "sim/base/units.h"
#include "sim/placement.h"

namespace emplace::agents {

// A list scheduler's schedule by its own model of time and memory. Agents keep only the placement: the simulator
// predicts when ops run.
struct ListSchedule {
  Placement placement;
  std::vector<Duration> start;     // [num_groups]
  std::vector<Duration> end;       // [num_groups]
  std::size_t without_memory = 0;  // groups that no device had room for
};

inline constexpr std::size_t kNoFavourite = std::numeric_limits<std::size_t>::max();

// Memory-constrained earliest-time-first scheduling. At each point in time, among the groups whose producers have all
// ended and the idle devices that have room, the pair with the smallest (group, device) starts whose inputs have
// arrived; then time moves on to the next end or arrival.
//   Devices: `devices`; for a group that is allowed on none of them, all where it is allowed.
//   Links: those of the cluster, with one outgoing channel per device or per pair. A tensor is sent to a device once,
//   when the first group that needs it there starts, but dated back to the moment it could have left; several inputs
//   from one sender queue by (end of producer, tensor id).
//   Memory of a device: persistent, temporary and output bytes from a group's start; temporary bytes are freed at its
//   end, output bytes when the last consumer ended (its own end if it has none). Copies on other devices do not count.
//   Where no device ever has room for a group that is ready, it goes to the one with the most room left. The simulator
//   then finds that the placement does not fit.
//
// `favourites` (empty for m-ETF) has a child for each group, or kNoFavourite. With it, an idle device is awake if the
// favourite child of its last group is ready, unplaced, and can start on no other device earlier. An awake device waits
// for that child, unless a group is urgent: its inputs have arrived at all its devices, and all of them are idle.
//
// Source: m-ETF and m-SCT of Jeon et al. 2020 ("Baechi", SoCC). Deviations: the link model of the cluster instead of
// fitted constants, and receiving costs nothing; a device is idle for its op gap after each op; where memory never
// suffices the published code stops; outputs without consumers are freed.
// Cost: about O(groups * devices * (inputs + log groups)).
ListSchedule ScheduleEarliestFirst(const Observation& observation, std::span<const DeviceId> devices,
                                   std::span<const std::size_t> favourites);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_HEURISTICS_LIST_SCHEDULER_H_
