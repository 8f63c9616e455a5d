#include "profiler/measure/machine_cluster.h"

#include <vector>

#include "sim/base/check.h"

namespace emplace::profiler {
namespace {

Link LinkBetween(const NamedDevice& from, const NamedDevice& to, const Profile& profile) {
  const Profile::LinkEntry* of_kinds = nullptr;
  const Profile::LinkEntry* own = nullptr;
  for (const Profile::LinkEntry& link : profile.links) {
    if (link.from != from.kind || link.to != to.kind) continue;
    if (link.from_device.empty()) of_kinds = &link;
    if (link.from_device == from.name && link.to_device == to.name) own = &link;
  }
  if (const Profile::LinkEntry* const link = own != nullptr ? own : of_kinds; link != nullptr) {
    return {.bandwidth_gb_per_s = link->bandwidth_gb_per_s,
            .latency_micros = link->latency_micros,
            .gap_micros = 0,
            .knee = link->knee,
            .beyond_gb_per_s = link->beyond_gb_per_s};
  }
  throw InputError("links", "the profile has none from " + from.kind + " to " + to.kind +
                                " (profile both devices: " + from.name + "," + to.name + ")");
}

double GapOf(const std::string& kind, const Profile& profile) {
  for (const Profile::DeviceEntry& device : profile.devices) {
    if (device.kind == kind) return device.op_gap_micros;
  }
  throw InputError("devices", "the profile has none of kind " + kind + " (profile with such a device)");
}

}  // namespace

NamedDevice NamedAfter(const HardwareDevice& device) {
  return {.name = device.name(), .kind = device.kind(), .is_cpu = device.is_cpu(), .memory = device.memory()};
}

Cluster MachineCluster(const std::string& name, std::span<const NamedDevice> devices, const Profile& profile) {
  std::vector<Device> members;
  for (const NamedDevice& device : devices) {
    members.push_back({.name = device.name,
                       .kind = device.kind,
                       .memory = device.memory,
                       .op_gap_micros = GapOf(device.kind, profile),
                       .is_cpu = device.is_cpu,
                       .copy_engine = !device.is_cpu});
  }
  std::vector<Link> links(devices.size() * devices.size());
  for (std::size_t from = 0; from < devices.size(); ++from) {
    for (std::size_t to = 0; to < devices.size(); ++to) {
      if (from != to) links[from * devices.size() + to] = LinkBetween(devices[from], devices[to], profile);
    }
  }
  const std::string source = "measured by emplace profile" + (profile.created.empty() ? "" : ", " + profile.created);
  return {name, source, std::move(members), std::move(links), Channels::kPerDevice};
}

}  // namespace emplace::profiler
