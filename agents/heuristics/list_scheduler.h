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

// A list scheduler's schedule by its own model of time and memory. Agents keep only the placement; the simulator
// predicts when ops run.
struct ListSchedule {
  Placement placement;
  std::vector<Duration> start;     // [num_groups]
  std::vector<Duration> end;       // [num_groups]
  std::size_t without_memory = 0;  // groups for which no device had enough memory
};

inline constexpr std::size_t kNoFavourite = std::numeric_limits<std::size_t>::max();

// Memory-constrained earliest-time-first scheduling. At each time, the candidates are pairs of a group and an idle
// device with enough memory. All producers of the group have ended, and its inputs have arrived at the device. The pair
// with the smallest (group, device) starts. Then time advances to the next end or arrival.
//   Devices: `devices`; for a group that is allowed on none of them, all where it is allowed.
//   Links: those of the cluster, with one outgoing channel per device or per pair. A tensor is sent to a device once,
//   when the first group that needs it there starts, but dated back to the earliest time it could have been sent.
//   Several inputs from one sender queue by (end of producer, tensor id).
//   Memory of a device: persistent, temporary and output bytes from a group's start. Temporary bytes are freed at its
//   end, output bytes when the last consumer ended (its own end if it has none). Copies on other devices do not count.
//   If no device ever has enough memory for a ready group, it goes to the one with the most memory left. The simulator
//   then reports that the placement does not fit.
//
// `favourites` (empty for m-ETF) has a child for each group, or kNoFavourite. An idle device is awake if the favourite
// child of its last group is ready and unplaced, and cannot start earlier on another device. An awake device waits for
// that child, unless a group is urgent: its inputs have arrived at all its devices, and all of them are idle.
//
// Source: m-ETF and m-SCT of Jeon et al. 2020 ("Baechi", SoCC). Deviations: the link model of the cluster instead of
// fitted constants, and receiving costs nothing. A device is idle for its op gap after each op. If memory never
// suffices, a group is still placed, where the published code stops. Outputs without consumers are freed.
// Cost: about O(groups * devices * (inputs + log groups)).
ListSchedule ScheduleEarliestFirst(const Observation& observation, std::span<const DeviceId> devices,
                                   std::span<const std::size_t> favourites);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_HEURISTICS_LIST_SCHEDULER_H_
