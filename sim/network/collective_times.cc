#include "sim/network/collective_times.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "sim/base/check.h"
#include "sim/cost/curves.h"

namespace emplace {
namespace {

using Pair = std::pair<DeviceId, DeviceId>;

// Faster links are NVLink, or as good: a PCIe 5.0 x16 port has 63 GB/s.
constexpr double kNvlinkGbPerS = 100;

// NCCL 2.11's tuning model for one protocol and algorithm: baseLat, hwLat by link, and the share of the bandwidth.
struct Row {
  double base_micros;
  std::array<double, 3> hop_micros;  // NVLink, PCI, network
  double share;
};
constexpr Row kRingSimple = {8.4, {3.4, 5.7, 9.6}, 1};
constexpr Row kRingLl = {3.6, {0.47, 1.0, 2.7}, 0.25};
constexpr Row kTreeSimple = {0, {28, 28, 50}, 0.9};
constexpr Row kTreeLl = {4.4, {0.52, 1.0, 5.0}, 0.9 / 3.8};

// Low latency (LL) sends a flag with every word. NCCL uses few threads for it, so it suits small messages: on 8 A100s,
// messages of 1 MiB take the time of the simple protocol.
constexpr double kMostLlBytes = 65536;  // limit per member

std::vector<Pair> RingPairs(std::span<const DeviceId> devices) {
  std::vector<Pair> pairs;
  for (std::size_t i = 0; i < devices.size(); ++i) pairs.emplace_back(devices[i], devices[(i + 1) % devices.size()]);
  return pairs;
}

}  // namespace

std::string_view Name(CollectiveAlgorithm algorithm) {
  constexpr std::array<std::string_view, 3> kNames = {"ring", "tree", "direct"};
  return kNames[static_cast<std::size_t>(algorithm)];
}

std::vector<DeviceId> DevicesOf(const Collective& collective, std::span<const DeviceId> placement) {
  std::vector<DeviceId> devices;
  for (const OpId op : collective.members) devices.push_back(placement[Index(op)]);
  if (collective.kind != CollectiveKind::kSendReceive) std::sort(devices.begin(), devices.end());
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  return devices;
}

std::vector<DeviceId> FirstDevicesFor(const Collective& collective, const Cluster& cluster) {
  std::vector<DeviceId> devices;
  for (std::size_t d = 0; d < cluster.num_devices() && devices.size() < collective.members.size(); ++d) {
    if (!cluster.devices()[d].is_cpu) devices.push_back(MakeId<DeviceId>(d));
  }
  return devices;
}

std::optional<double> MeasuredCollectiveMicros(const Collective& collective, std::span<const DeviceId> placement,
                                               const Graph& graph, const Cluster& cluster) {
  std::optional<double> given;
  for (const OpId op : collective.members) {
    const auto micros = graph.MeasuredMicros(op, cluster.device(placement[Index(op)]).kind);
    if (micros) given = std::max(given.value_or(0), *micros);
  }
  return given;
}

CollectiveTimes::CollectiveTimes(const Cluster& cluster, bool by_curves)
    : cluster_(cluster), by_curves_(by_curves), least_latency_(std::numeric_limits<double>::infinity()) {
  for (std::size_t a = 0; a < cluster.num_devices(); ++a) {
    for (std::size_t b = 0; b < cluster.num_devices(); ++b) {
      if (a == b || cluster.devices()[a].is_cpu || cluster.devices()[b].is_cpu) continue;
      const Link& link = cluster.link(MakeId<DeviceId>(a), MakeId<DeviceId>(b));
      if (link.exists()) least_latency_ = std::min(least_latency_, link.latency_micros);
    }
  }
}

CollectiveTimes::Hop CollectiveTimes::HopOf(DeviceId from, DeviceId to) const {
  const Link& link = cluster_.link(from, to);
  if (link.bandwidth_gb_per_s >= kNvlinkGbPerS) return Hop::kNvlink;
  return link.latency_micros > least_latency_ ? Hop::kNetwork : Hop::kPci;
}

// How long it takes until `bytes` have gone over each pair, all at once, in µs.
double CollectiveTimes::Payload(std::span<const Pair> pairs, double bytes) const {
  double micros = 0;
  const Topology& topology = cluster_.topology();
  if (!topology.empty()) {
    std::vector<std::uint32_t> used;
    for (const auto& [from, to] : pairs) {
      const auto route = topology.Route(Index(from), Index(to));
      used.insert(used.end(), route.begin(), route.end());
    }
    std::sort(used.begin(), used.end());
    for (std::size_t i = 0; i < used.size();) {
      std::size_t end = i + 1;
      while (end < used.size() && used[end] == used[i]) ++end;
      micros = std::max(micros,
                        static_cast<double>(end - i) * bytes / (topology.links()[used[i]].bandwidth_gb_per_s * 1000));
      i = end;
    }
    return micros;
  }
  // A device sends by one channel, or by one for each other device.
  std::vector<double> of_sender(cluster_.channels() == Channels::kPerDevice ? cluster_.num_devices() : 0);
  for (const auto& [from, to] : pairs) {
    double takes = cluster_.link(from, to).MicrosOf(bytes);
    if (!of_sender.empty()) takes = of_sender[Index(from)] += takes;
    micros = std::max(micros, takes);
  }
  return micros;
}

double CollectiveTimes::FixedMicros(Bytes size) const {
  const CollectiveCosts& costs = cluster_.collective_costs();
  return costs.launch_micros + kRingSimple.base_micros +
         static_cast<double>(size.count) / (costs.local_gb_per_s * 1000);
}

double CollectiveTimes::Micros(CollectiveKind kind, Bytes size, std::span<const DeviceId> devices,
                               CollectiveAlgorithm algorithm) const {
  const std::size_t n = devices.size();
  EMPLACE_CHECK_GE(n, std::size_t{1});
  if (n == 1) return 0;
  const auto members = static_cast<double>(n);
  const auto bytes = static_cast<double>(size.count);
  const bool is_small = bytes <= kMostLlBytes * members;
  const CollectiveCosts& costs = cluster_.collective_costs();
  const double fixed = costs.launch_micros + bytes / (costs.local_gb_per_s * 1000);
  const auto fastest = [&](const Row& simple, const Row& ll, const auto& latency, double payload) {
    double micros = simple.base_micros + latency(simple) + payload / simple.share;
    if (is_small) micros = std::min(micros, ll.base_micros + latency(ll) + payload / ll.share);
    return fixed + micros;
  };
  const auto hop_micros = [&](const Row& row, DeviceId from, DeviceId to) {
    return row.hop_micros[static_cast<std::size_t>(HopOf(from, to))];
  };
  if (kind == CollectiveKind::kSendReceive || kind == CollectiveKind::kAllToAll) {
    EMPLACE_CHECK(algorithm == CollectiveAlgorithm::kDirect);
    std::vector<Pair> pairs;
    for (const DeviceId from : devices) {
      for (const DeviceId to : devices) {
        if (from != to) pairs.emplace_back(from, to);
      }
    }
    if (kind == CollectiveKind::kSendReceive) pairs = {{devices.front(), devices.back()}};
    const auto latency = [&](const Row& row) {
      double most = 0;
      for (const auto& [from, to] : pairs) most = std::max(most, hop_micros(row, from, to));
      return most;
    };
    const double payload = Payload(pairs, kind == CollectiveKind::kSendReceive ? bytes : bytes / members);
    return fastest(kRingSimple, kRingLl, latency, payload);
  }
  const std::vector<Pair> around = RingPairs(devices);
  const double rounds = kind == CollectiveKind::kAllReduce ? 2 : 1;
  if (algorithm == CollectiveAlgorithm::kTree) {
    EMPLACE_CHECK(kind == CollectiveKind::kAllReduce);
    // A chain within each node, and a binary tree of the nodes: up and down.
    const auto latency = [&](const Row& row) {
      std::size_t nodes = 1;
      double longest_chain = 0;
      double chain = 0;
      double network = 0;
      for (std::size_t i = 0; i + 1 < n; ++i) {
        const double hop = hop_micros(row, around[i].first, around[i].second);
        if (HopOf(around[i].first, around[i].second) == Hop::kNetwork) {
          ++nodes;
          network = std::max(network, hop);
          chain = 0;
        } else {
          chain += hop;
          longest_chain = std::max(longest_chain, chain);
        }
      }
      return 2 * (longest_chain + std::ceil(std::log2(static_cast<double>(nodes))) * network);
    };
    // Each device receives the message and sends it, up and down: two passes.
    return fastest(kTreeSimple, kTreeLl, latency, Payload(around, 2 * bytes));
  }
  EMPLACE_CHECK(algorithm == CollectiveAlgorithm::kRing);
  const auto latency = [&](const Row& row) {
    double sum = 0;
    for (std::size_t i = 0; i + 1 < n; ++i) sum += hop_micros(row, around[i].first, around[i].second);
    return rounds * sum;
  };
  // A broadcast is pipelined: the whole message passes each link.
  const double part = kind == CollectiveKind::kBroadcast ? 1 : rounds * (members - 1) / members;
  return fastest(kRingSimple, kRingLl, latency, Payload(around, part * bytes));
}

// By the curve of devices of one kind that are joined alike, none of them over a network.
std::optional<double> CollectiveTimes::CurveMicros(CollectiveKind kind, Bytes size,
                                                   std::span<const DeviceId> devices) const {
  if (!by_curves_ || devices.size() < 2) return std::nullopt;
  const Device& first = cluster_.device(devices[0]);
  const double bandwidth = cluster_.link(devices[0], devices[1]).bandwidth_gb_per_s;
  for (const auto& [from, to] : RingPairs(devices)) {
    if (cluster_.device(from).kind != first.kind || HopOf(from, to) == Hop::kNetwork ||
        cluster_.link(from, to).bandwidth_gb_per_s != bandwidth) {
      return std::nullopt;
    }
  }
  return CollectiveMicros(first.kind, bandwidth, kind, devices.size(), static_cast<double>(size.count));
}

CollectiveTimes::Time CollectiveTimes::Of(CollectiveKind kind, Bytes size, std::span<const DeviceId> devices) const {
  if (const auto micros = CurveMicros(kind, size, devices)) {
    const bool is_direct = kind == CollectiveKind::kAllToAll;
    return {DurationFromMicros(*micros), is_direct ? CollectiveAlgorithm::kDirect : CollectiveAlgorithm::kRing};
  }
  const auto time = [&](CollectiveAlgorithm algorithm) {
    return Time{DurationFromMicros(Micros(kind, size, devices, algorithm)), algorithm};
  };
  switch (kind) {
    case CollectiveKind::kAllReduce: {
      const Time ring = time(CollectiveAlgorithm::kRing);
      const Time tree = time(CollectiveAlgorithm::kTree);
      return tree.duration < ring.duration ? tree : ring;
    }
    case CollectiveKind::kReduceScatter:
    case CollectiveKind::kAllGather:
    case CollectiveKind::kBroadcast:
      return time(CollectiveAlgorithm::kRing);
    case CollectiveKind::kAllToAll:
    case CollectiveKind::kSendReceive:
      return time(CollectiveAlgorithm::kDirect);
  }
  return {};
}

}  // namespace emplace
