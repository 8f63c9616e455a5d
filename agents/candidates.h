#ifndef EMPLACE_AGENTS_CANDIDATES_H_
#define EMPLACE_AGENTS_CANDIDATES_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "agents/environment.h"
#include "sim/cluster.h"
#include "sim/placement.h"

// The devices that agents choose from for each group, and the placements that searches start from.
namespace emplace::agents {

// Every device of the cluster, in order.
std::vector<DeviceId> AllDevices(const Cluster& cluster);

// The devices of `devices` where the group is allowed, in order. If there are none, every device where it is allowed.
// Never empty.
std::vector<DeviceId> Candidates(const Observation& observation, std::size_t group, std::span<const DeviceId> devices);

// The devices that a search tries: Candidates() of each group among the accelerators, or among all devices with
// `use_cpus`. [num_groups], none of them empty.
std::vector<std::vector<DeviceId>> SearchDevices(const Observation& observation, bool use_cpus);

// 1 for each device of the list, [num_devices].
std::vector<std::uint8_t> MaskOf(std::span<const DeviceId> devices, std::size_t num_devices);

// The start of searches: every group on the one accelerator with the smallest total time. A group not allowed there
// goes to its fastest device.
Placement OnOneOf(const Observation& observation, std::span<const DeviceId> devices);
// The same with the first accelerator; papers call this the single device.
Placement OnFirstAccelerator(const Observation& observation);

// The given start of the environment; without one, OnOneOf the accelerators.
Placement StartOf(const Environment& env);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_CANDIDATES_H_
