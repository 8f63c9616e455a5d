#ifndef EMPLACE_PROFILER_MEASURE_MACHINE_CLUSTER_H_
#define EMPLACE_PROFILER_MEASURE_MACHINE_CLUSTER_H_

#include <optional>
#include <span>
#include <string>

#include "profiler/hardware.h"
#include "sim/cluster.h"
#include "sim/profile.h"

namespace emplace::profiler {

// A device as the command names it, of the kind that the profile measured.
struct NamedDevice {
  std::string name;  // "cpu:0"
  std::string kind;  // "cpu-core"
  bool is_cpu = false;
  std::optional<Bytes> memory;
};
NamedDevice NamedAfter(const HardwareDevice& device);

// The devices of a machine as a cluster: op gaps and links from the profile, by kind, but those
// links that it has between devices of these names; CPU cores have no copy engine.
// Throws InputError where the profile has no link between two of the kinds.
Cluster MachineCluster(const std::string& name, std::span<const NamedDevice> devices, const Profile& profile);

}  // namespace emplace::profiler

#endif  // EMPLACE_PROFILER_MEASURE_MACHINE_CLUSTER_H_
