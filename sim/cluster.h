#ifndef EMPLACE_SIM_CLUSTER_H_
#define EMPLACE_SIM_CLUSTER_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/units.h"
#include "sim/device_catalog.h"
#include "sim/network/topology.h"

namespace emplace {

// A thread of the host that issues the ops of a device, which runs them behind it, in the order of issue:
// docs/model.md, F15 to F18.
struct IssueLane {
  std::string lane = {};             // devices with one name share the thread; "": the device has one of its own
  double host_micros = 0;            // time of the thread for an op without a host time
  double launch_latency_micros = 0;  // minimum time from the end of the issue to the start of an op of non-zero time
  std::int64_t max_queued = 0;       // ops that are issued and have not ended, at most; 0: no limit
  bool operator==(const IssueLane&) const = default;
};

struct Device {
  std::string name;
  std::string kind;
  std::optional<Bytes> memory;  // none: no limit
  double op_gap_micros = 0;     // idle after each op of non-zero time
  bool is_cpu = false;
  bool copy_engine = true;  // false: it sends by itself, one tensor after the other, and starts no op meanwhile
  std::optional<IssueLane> issue = {};
  std::string host = {};  // name of the machine that it is in; "": the file does not say
};

// How an ordered pair of devices is joined. Doubles as read; the simulator rounds them.
struct Link {
  double bandwidth_gb_per_s = 0;  // 0: there is no link
  double latency_micros = 0;
  double gap_micros = 0;  // channel idle after each transfer
  // Where copies of large tensors run at another speed: the bytes beyond the knee. Both 0: there is no knee.
  Bytes knee = {};
  double beyond_gb_per_s = 0;
  bool contention = true;  // false: transfers over it never wait for others, and others do not wait for them
  bool receive = false;    // a transfer occupies a channel of the receiver too

  bool exists() const { return bandwidth_gb_per_s > 0; }
  TransferRate rate() const { return {RateFromGbPerS(bandwidth_gb_per_s), knee, RateFromGbPerS(beyond_gb_per_s)}; }
  // Not rounded; without the latency.
  double MicrosOf(double bytes) const {
    const auto straight = static_cast<double>(knee.count);
    if (knee.count == 0 || bytes <= straight) return bytes / (bandwidth_gb_per_s * 1000.0);
    return straight / (bandwidth_gb_per_s * 1000.0) + (bytes - straight) / (beyond_gb_per_s * 1000.0);
  }
  bool operator==(const Link&) const = default;
};

enum class Channels { kPerDevice, kPerPair };

// The fixed costs of a collective besides its time on links (docs/model.md, K8). The defaults fit the all-reduces of 2
// and 8 A100s that vTrain measured, at 1 MiB and at 1 GiB (docs/results/vtrain.md).
struct CollectiveCosts {
  double launch_micros = 24;    // launch time of each collective
  double local_gb_per_s = 600;  // rate at which a device processes its own part of the message
  bool operator==(const CollectiveCosts&) const = default;
};

// The network that joins copies of a cluster, its nodes.
struct NodeNetwork {
  // With a topology: links from devices or switches of each node to the network's switch, and back.
  struct Port {
    Topology::Vertex at = 0;
    double bandwidth_gb_per_s = 0;
    double latency_micros = 0;
    bool operator==(const Port&) const = default;
  };
  std::vector<Port> ports = {};
  // Without a topology: the link between any two devices of different nodes.
  Link link = {};
  bool operator==(const NodeNetwork&) const = default;
};

// What is changed of a cluster: factors of numbers, and kinds of devices that become others, as (old, new).
struct ClusterChanges {
  double bandwidth = 1;  // of links
  double latency = 1;    // latencies and gaps of links, and launch times of collectives
  double memory = 1;     // capacities of devices
  std::vector<std::pair<std::string, std::string>> kinds = {};
};

// Devices and the links between them. Device ids are positions in devices(): they decide ties.
class Cluster {
 public:
  // `links` has devices.size()^2 entries, row = from; the diagonal is not used.

  // Throws InputError if names repeat or are empty, a number is out of range, or only some devices of a kind have an
  // issue lane.
  Cluster(std::string name, std::string source, std::vector<Device> devices, std::vector<Link> links, Channels channels,
          std::map<std::string, DeviceKind, std::less<>> own_kinds = {});
  // With the links that the topology's routes give: the smallest bandwidth of a route, its latencies added, and no gap.
  // Throws as above. Requires: it is of as many devices.
  Cluster(std::string name, std::string source, std::vector<Device> devices, Topology topology, Channels channels,
          std::map<std::string, DeviceKind, std::less<>> own_kinds = {});

  // Devices joined alike, for tests and importers.
  static Cluster Uniform(std::string name, std::vector<Device> devices, Link link,
                         Channels channels = Channels::kPerDevice);

  const std::string& name() const { return name_; }
  const std::string& source() const { return source_; }
  std::size_t num_devices() const { return devices_.size(); }
  const std::vector<Device>& devices() const { return devices_; }
  const Device& device(DeviceId id) const { return devices_[Index(id)]; }
  const Link& link(DeviceId from, DeviceId to) const { return links_[Index(from) * devices_.size() + Index(to)]; }
  Channels channels() const { return channels_; }
  // How links share what they are made of; empty where nothing is known of that.
  const Topology& topology() const { return *topology_; }
  const CollectiveCosts& collective_costs() const { return collective_costs_; }
  std::optional<DeviceId> FindDevice(std::string_view name) const;
  // Whether any device has an issue lane.
  bool has_issue_lanes() const;
  // Whether every link is one over which transfers wait for others, and which occupies the sender's channel alone.
  bool has_plain_links() const;
  // Whether some link is without contention.
  bool has_free_links() const;
  // The first pair of devices (from, to) without a link; none if all are linked.
  std::optional<std::pair<DeviceId, DeviceId>> FindMissingLink() const;

  // The device kind's rates: this file's own, else the catalogue's; null if neither has it.
  const DeviceKind* FindKind(std::string_view kind) const;
  const std::map<std::string, DeviceKind, std::less<>>& own_kinds() const { return own_kinds_; }

  // The cluster cut down to the named devices, which keep their order here. Throws InputError on an unknown name.
  Cluster Keep(const std::vector<std::string>& names) const;
  // Whether Keep() was asked for a CPU by its name: one that the user wants beside accelerators.
  bool names_cpu() const { return names_cpu_; }
  // The first `count` accelerators and every CPU. Throws InputError if there are fewer accelerators.
  Cluster KeepAccelerators(std::size_t count) const;
  // Throws InputError if a number is out of range.
  Cluster WithCollectiveCosts(const CollectiveCosts& costs) const;
  // Throws InputError if a number is out of range, or the network has ports without a topology or none with one.
  Cluster WithNetwork(NodeNetwork network) const;
  const std::optional<NodeNetwork>& network() const { return network_; }
  // `nodes` copies of the cluster, joined by its network. Devices of a name that ends in :N are numbered on, from copy
  // to copy; other names, switches and issue lanes have "nodeK/" in front in copy K, from 1. Within a node tensors take
  // the ways that they take in one. Throws InputError if there is no network, or too many devices.
  Cluster Repeat(std::size_t nodes) const;
  // Throws InputError on a factor that is not above 0, a kind that no device has, a new one without rates, and a number
  // that gets out of range. A device of a new kind has that kind's memory, if it had a limit and the kind's is known.
  Cluster WithChanges(const ClusterChanges& changes) const;
  // The same cluster, but that the bandwidths of links are multiplied by the factors, [num_devices][num_devices], row =
  // from. The topology stays as it is, so that the engine `flow` sees no difference. Requires: factors above 0.
  Cluster WithLinkBandwidths(const std::vector<double>& factors) const;
  // The same cluster, but that devices start their ops by themselves.
  Cluster WithoutIssueLanes() const;
  // The same cluster, but that no device runs out of memory.
  Cluster WithoutMemoryLimits() const;

 private:
  Cluster KeepIds(const std::vector<std::size_t>& kept) const;

  std::string name_;
  std::string source_;
  std::vector<Device> devices_;
  std::vector<Link> links_;
  Channels channels_;
  std::map<std::string, DeviceKind, std::less<>> own_kinds_;
  CollectiveCosts collective_costs_;
  std::optional<NodeNetwork> network_;
  std::shared_ptr<const Topology> topology_ = std::make_shared<Topology>();  // never null
  bool names_cpu_ = false;
};

}  // namespace emplace

#endif  // EMPLACE_SIM_CLUSTER_H_
