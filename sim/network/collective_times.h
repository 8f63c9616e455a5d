#ifndef EMPLACE_SIM_NETWORK_COLLECTIVE_TIMES_H_
#define EMPLACE_SIM_NETWORK_COLLECTIVE_TIMES_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/base/units.h"
#include "sim/cluster.h"
#include "sim/graph.h"

namespace emplace {

enum class CollectiveAlgorithm : std::uint8_t { kRing, kTree, kDirect };
std::string_view Name(CollectiveAlgorithm algorithm);  // "ring", "tree", "direct"

// The distinct devices of its members, ascending; of kSendReceive the sender's, then the receiver's.
std::vector<DeviceId> DevicesOf(const Collective& collective, std::span<const DeviceId> placement);
// One accelerator for each member, the first ones of the cluster; fewer if it has fewer.
std::vector<DeviceId> FirstDevicesFor(const Collective& collective, const Cluster& cluster);
// The longest measured time of its members on the kinds where they are, in µs; none if no member has one
// (docs/model.md, K6).
std::optional<double> MeasuredCollectiveMicros(const Collective& collective, std::span<const DeviceId> placement,
                                               const Graph& graph, const Cluster& cluster);

// How long collectives take, if nothing else is on the links: docs/model.md, K7 to K12.
// Source: the tuning model of NCCL 2.11 (`ncclTopoTuneModel`): latencies by algorithm, protocol and link, and the share
// of the bandwidth that each reaches. Deviations: the time of a launch and of a pass over a device's own memory
// (CollectiveCosts); bandwidths come from the cluster; protocol LL128 and NCCL's corrections for medium trees are left
// out.
class CollectiveTimes {
 public:
  // `by_curves`: in a node whose devices have measured collectives, the curves of these (CollectiveMicros).
  explicit CollectiveTimes(const Cluster& cluster, bool by_curves = false);

  struct Time {
    Duration duration{};
    CollectiveAlgorithm algorithm{};  // the fastest
  };
  // `size` as in Collective. `devices`: ascending, distinct, at least one; of kSendReceive the sender, then the
  // receiver. On one device a collective takes no time. Requires: consecutive devices, and the last and the first, have
  // links, all pairs of an all-to-all.
  Time Of(CollectiveKind kind, Bytes size, std::span<const DeviceId> devices) const;
  // The same by one algorithm, in µs, unrounded. Requires: an all-reduce for kTree, and for kDirect one of the others
  // that have no ring: all_to_all and send_receive.
  double Micros(CollectiveKind kind, Bytes size, std::span<const DeviceId> devices,
                CollectiveAlgorithm algorithm) const;
  // The time of the curve that Of() takes, in us; none if it takes the fastest algorithm.
  std::optional<double> CurveMicros(CollectiveKind kind, Bytes size, std::span<const DeviceId> devices) const;
  // The time of a collective before and in addition to its flows: the launch, the pass over a device's own part, and
  // the ring's base.
  double FixedMicros(Bytes size) const;

 private:
  enum class Hop : std::uint8_t { kNvlink, kPci, kNetwork };
  Hop HopOf(DeviceId from, DeviceId to) const;
  double Payload(std::span<const std::pair<DeviceId, DeviceId>> pairs, double bytes) const;

  Cluster cluster_;
  bool by_curves_;
  double least_latency_ = 0;  // between accelerators
};

}  // namespace emplace

#endif  // EMPLACE_SIM_NETWORK_COLLECTIVE_TIMES_H_
