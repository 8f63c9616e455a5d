#include "sim/cluster.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "sim/base/check.h"
#include "sim/base/json_text.h"
#include "sim/base/registry.h"

namespace emplace {
namespace {

constexpr double kMaxFactor = 1e6;
constexpr double kMaxMemoryBytes = 1e18;

void CheckRange(double value, double high, const std::string& place) {
  if (!(value >= 0) || value > high) {
    throw InputError(place, std::to_string(value) + " is out of range (0 to " + std::to_string(high) + ")");
  }
}

void CheckLink(const Link& link, const std::string& place) {
  CheckRange(link.bandwidth_gb_per_s, kMaxGbPerS, place + ": bandwidth_gb_per_s");
  if (link.exists() && RateFromGbPerS(link.bandwidth_gb_per_s).count < 1) {
    throw InputError(place + ": bandwidth_gb_per_s", "is below 1 byte/s");
  }
  const bool has_knee = link.knee.count > 0;
  if (link.knee.count < 0) throw InputError(place + ": knee_bytes", "is negative");
  if (has_knee != (link.beyond_gb_per_s > 0)) {
    throw InputError(place, "has only one of knee_bytes and beyond_gb_per_s (both, or none)");
  }
  CheckRange(link.beyond_gb_per_s, kMaxGbPerS, place + ": beyond_gb_per_s");
  if (has_knee && RateFromGbPerS(link.beyond_gb_per_s).count < 1) {
    throw InputError(place + ": beyond_gb_per_s", "is below 1 byte/s");
  }
  CheckRange(link.latency_micros, kMaxMicros, place + ": latency_us");
  CheckRange(link.gap_micros, kMaxMicros, place + ": gap_us");
}

std::vector<Link> LinksOf(const Topology& topology) {
  const std::size_t n = topology.num_devices();
  std::vector<Link> links(n * n);
  for (std::size_t i = 0; i < links.size(); ++i) {
    for (const std::uint32_t part : topology.Route(i / n, i % n)) {
      const Topology::Link& over = topology.links()[part];
      const bool is_first = !links[i].exists();
      links[i].bandwidth_gb_per_s =
          is_first ? over.bandwidth_gb_per_s : std::min(links[i].bandwidth_gb_per_s, over.bandwidth_gb_per_s);
      links[i].latency_micros += over.latency_micros;
    }
  }
  return links;
}

}  // namespace

Cluster::Cluster(std::string name, std::string source, std::vector<Device> devices, std::vector<Link> links,
                 Channels channels, std::map<std::string, DeviceKind, std::less<>> own_kinds)
    : name_(std::move(name)),
      source_(std::move(source)),
      devices_(std::move(devices)),
      links_(std::move(links)),
      channels_(channels),
      own_kinds_(std::move(own_kinds)) {
  EMPLACE_CHECK_EQ(links_.size(), devices_.size() * devices_.size());
  if (devices_.empty()) throw InputError("devices", "there is no device (at least one)");
  std::set<std::string_view> names;
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    const Device& device = devices_[i];
    const std::string place = "devices[" + std::to_string(i) + "]";
    if (device.name.empty()) throw InputError(place + ".name", "the name is empty");
    if (!names.insert(device.name).second) {
      throw InputError(place + ".name", "duplicate device name \"" + device.name + "\"");
    }
    if (device.memory && device.memory->count < 0) throw InputError(place + ".memory_gib", "memory is negative");
    CheckRange(device.op_gap_micros, kMaxMicros, place + ".op_gap_us");
    if (device.issue) {
      CheckRange(device.issue->host_micros, kMaxMicros, place + ".issue.host_us");
      CheckRange(device.issue->launch_latency_micros, kMaxMicros, place + ".issue.launch_latency_us");
      if (device.issue->max_queued < 0) throw InputError(place + ".issue.max_queued", "is negative");
    }
    // A kind's times are those of one queue or of two.
    const Device& first =
        *std::find_if(devices_.begin(), devices_.end(), [&](const Device& d) { return d.kind == device.kind; });
    if (first.issue.has_value() != device.issue.has_value()) {
      throw InputError(place + ".issue", "only some devices of kind " + Quoted(device.kind) +
                                             " have an issue lane (all devices of a kind, or none)");
    }
  }
  for (std::size_t i = 0; i < links_.size(); ++i) {
    CheckLink(links_[i],
              "link from " + devices_[i / devices_.size()].name + " to " + devices_[i % devices_.size()].name);
  }
}

Cluster::Cluster(std::string name, std::string source, std::vector<Device> devices, Topology topology,
                 Channels channels, std::map<std::string, DeviceKind, std::less<>> own_kinds)
    : Cluster(std::move(name), std::move(source), std::move(devices), LinksOf(topology), channels,
              std::move(own_kinds)) {
  topology_ = std::make_shared<Topology>(std::move(topology));
}

Cluster Cluster::Uniform(std::string name, std::vector<Device> devices, Link link, Channels channels) {
  std::vector<Link> links(devices.size() * devices.size(), link);
  return Cluster(std::move(name), "", std::move(devices), std::move(links), channels);
}

std::optional<DeviceId> Cluster::FindDevice(std::string_view name) const {
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    if (devices_[i].name == name) return MakeId<DeviceId>(i);
  }
  return std::nullopt;
}

bool Cluster::has_free_links() const {
  return std::any_of(links_.begin(), links_.end(), [](const Link& link) { return link.exists() && !link.contention; });
}
bool Cluster::has_plain_links() const {
  return !has_free_links() &&
         std::none_of(links_.begin(), links_.end(), [](const Link& link) { return link.exists() && link.receive; });
}

bool Cluster::has_issue_lanes() const {
  return std::any_of(devices_.begin(), devices_.end(), [](const Device& device) { return device.issue.has_value(); });
}

std::optional<std::pair<DeviceId, DeviceId>> Cluster::FindMissingLink() const {
  for (std::size_t a = 0; a < num_devices(); ++a) {
    for (std::size_t b = 0; b < num_devices(); ++b) {
      const std::pair devices{MakeId<DeviceId>(a), MakeId<DeviceId>(b)};
      if (a != b && !link(devices.first, devices.second).exists()) return devices;
    }
  }
  return std::nullopt;
}

const DeviceKind* Cluster::FindKind(std::string_view kind) const {
  const auto own = own_kinds_.find(kind);
  return own != own_kinds_.end() ? &own->second : FindDeviceKind(kind);
}

Cluster Cluster::Keep(const std::vector<std::string>& names) const {
  std::vector<std::size_t> kept;
  for (const std::string& name : names) {
    const auto id = FindDevice(name);
    if (!id) {
      throw InputError("", "unknown device " + Quoted(name) + " (cluster " + name_ + " has " + Listed(devices_) + ")");
    }
    kept.push_back(Index(*id));
  }
  std::sort(kept.begin(), kept.end());
  kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
  Cluster named = KeepIds(kept);
  named.names_cpu_ = std::ranges::any_of(named.devices_, [](const Device& device) { return device.is_cpu; });
  return named;
}

Cluster Cluster::KeepAccelerators(std::size_t count) const {
  std::vector<std::size_t> kept;
  std::size_t accelerators = 0;
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    if (devices_[i].is_cpu || accelerators++ < count) kept.push_back(i);
  }
  if (accelerators < count) {
    throw InputError("", "cluster " + name_ + " has " + std::to_string(accelerators) + " accelerators, not " +
                             std::to_string(count));
  }
  Cluster fewer = KeepIds(kept);
  fewer.names_cpu_ = names_cpu_;
  return fewer;
}

Cluster Cluster::WithCollectiveCosts(const CollectiveCosts& costs) const {
  CheckRange(costs.launch_micros, kMaxMicros, "collectives.launch_us");
  CheckRange(costs.local_gb_per_s, kMaxGbPerS, "collectives.local_gb_per_s");
  if (costs.local_gb_per_s < kMinGbPerS) throw InputError("collectives.local_gb_per_s", "is below 1 byte/s");
  Cluster result = *this;
  result.collective_costs_ = costs;
  return result;
}

Cluster Cluster::WithNetwork(NodeNetwork network) const {
  if (network.ports.empty() == !topology().empty()) {
    throw InputError("network", topology().empty() ? "has ports, but the cluster has no topology"
                                                   : "has no ports, but the cluster has a topology");
  }
  if (topology().empty()) {
    if (!network.link.exists()) throw InputError("network", "has no bandwidth_gb_per_s");
    CheckLink(network.link, "network");
  }
  for (const NodeNetwork::Port& port : network.ports) {
    EMPLACE_CHECK(port.at < num_devices() + topology().switches().size());
    CheckLink({.bandwidth_gb_per_s = port.bandwidth_gb_per_s, .latency_micros = port.latency_micros}, "network.ports");
  }
  Cluster result = *this;
  result.network_ = std::move(network);
  return result;
}

Cluster Cluster::WithChanges(const ClusterChanges& changes) const {
  for (const auto& [name, factor] : {std::pair("bandwidth", changes.bandwidth), std::pair("latency", changes.latency),
                                     std::pair("memory", changes.memory)}) {
    if (!(factor > 0 && factor <= kMaxFactor)) {
      throw InputError(std::string("the factor of ") + name,
                       fmt::format("is {} (a number above 0 and at most {:g})", factor, kMaxFactor));
    }
  }
  std::vector<Device> devices = devices_;
  for (const auto& [old_kind, new_kind] : changes.kinds) {
    const DeviceKind* const rates = FindKind(new_kind);
    if (rates == nullptr) throw InputError("", "unknown device kind " + Quoted(new_kind) + " (emplace list devices)");
    bool found = false;
    for (std::size_t i = 0; i < devices.size(); ++i) {
      if (devices_[i].kind != old_kind) continue;
      found = true;
      devices[i].kind = new_kind;
      devices[i].is_cpu = rates->is_cpu;
      if (devices[i].memory && rates->memory) devices[i].memory = rates->memory;
    }
    if (!found) throw InputError("", "cluster " + name_ + " has no device of kind " + Quoted(old_kind));
  }
  for (Device& device : devices) {
    if (!device.memory) continue;
    const double bytes = static_cast<double>(device.memory->count) * changes.memory;
    device.memory = Bytes{static_cast<std::int64_t>(std::min(bytes, kMaxMemoryBytes))};
  }
  CollectiveCosts collectives = collective_costs_;
  collectives.launch_micros *= changes.latency;
  const auto scale = [&](Link* link) {
    link->bandwidth_gb_per_s *= changes.bandwidth;
    link->beyond_gb_per_s *= changes.bandwidth;
    link->latency_micros *= changes.latency;
    link->gap_micros *= changes.latency;
  };
  const auto changed = [&](auto joined) {
    Cluster cluster = Cluster(name_, source_, std::move(devices), std::move(joined), channels_, own_kinds_)
                          .WithCollectiveCosts(collectives);
    cluster.names_cpu_ = names_cpu_;
    cluster.network_ = network_;
    if (cluster.network_) {
      for (NodeNetwork::Port& port : cluster.network_->ports) {
        port.bandwidth_gb_per_s *= changes.bandwidth;
        port.latency_micros *= changes.latency;
      }
      scale(&cluster.network_->link);
    }
    return cluster;
  };
  if (!topology().empty()) {
    std::vector<Topology::Link> links = topology().links();
    for (Topology::Link& link : links) {
      link.bandwidth_gb_per_s *= changes.bandwidth;
      link.latency_micros *= changes.latency;
    }
    Topology topology(num_devices(), this->topology().switches(), std::move(links), this->topology().given());
    return changed(std::move(topology));
  }
  std::vector<Link> links = links_;
  for (Link& link : links) scale(&link);
  return changed(std::move(links));
}

Cluster Cluster::WithLinkBandwidths(const std::vector<double>& factors) const {
  EMPLACE_CHECK_EQ(factors.size(), links_.size());
  Cluster cluster = *this;
  for (std::size_t i = 0; i < factors.size(); ++i) {
    cluster.links_[i].bandwidth_gb_per_s *= factors[i];
    cluster.links_[i].beyond_gb_per_s *= factors[i];
  }
  return cluster;
}

Cluster Cluster::WithoutIssueLanes() const {
  Cluster result = *this;
  for (Device& device : result.devices_) device.issue.reset();
  return result;
}

Cluster Cluster::WithoutMemoryLimits() const {
  Cluster unlimited = *this;
  for (Device& device : unlimited.devices_) device.memory.reset();
  for (auto& [name, kind] : unlimited.own_kinds_) kind.memory.reset();
  return unlimited;
}

Cluster Cluster::KeepIds(const std::vector<std::size_t>& kept) const {
  if (kept.empty()) throw InputError("", "no device of cluster " + name_ + " is left");
  std::vector<Device> devices;
  std::vector<Link> links;
  if (!topology().empty()) {
    std::vector<std::string> names;
    for (const Device& device : devices_) names.push_back(device.name);
    for (const std::size_t id : kept) devices.push_back(devices_[id]);
    return Cluster(name_, source_, std::move(devices), topology().Keep(kept, names), channels_, own_kinds_)
        .WithCollectiveCosts(collective_costs_);
  }
  for (const std::size_t from : kept) {
    devices.push_back(devices_[from]);
    for (const std::size_t to : kept) links.push_back(links_[from * devices_.size() + to]);
  }
  return Cluster(name_, source_, std::move(devices), std::move(links), channels_, own_kinds_)
      .WithCollectiveCosts(collective_costs_);
}

}  // namespace emplace
