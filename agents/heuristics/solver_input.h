#ifndef EMPLACE_AGENTS_HEURISTICS_SOLVER_INPUT_H_
#define EMPLACE_AGENTS_HEURISTICS_SOLVER_INPUT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "agents/environment.h"
#include "sim/base/units.h"
#include "sim/cluster.h"
#include "sim/graph.h"
#include "sim/placement.h"

// Inputs of partitioners and list schedulers, computed from an Observation.
namespace emplace::agents {

// A pair of groups joined by tensors, control edges or both. Groups are in topological order: from < to.
struct GroupEdge {
  std::size_t from = 0;
  std::size_t to = 0;
  std::int64_t bytes = 0;  // bytes of the distinct tensors that `to` reads from `from`; 0 for control edges only
  bool operator==(const GroupEdge&) const = default;
};
// One entry for each pair, ascending by (from, to). A tensor read by two groups counts on both edges.
std::vector<GroupEdge> GroupEdges(const Graph& graph);

// The undirected graph of the edges that carry bytes, as partitioners read it. The neighbours of vertex i are
// neighbours[first[i] .. first[i + 1]), and bytes[] is parallel to neighbours[].
struct ByteGraph {
  std::vector<std::size_t> first;
  std::vector<std::size_t> neighbours;
  std::vector<std::int64_t> bytes;
};
// A group with more than `most_neighbours` neighbours loses all of its edges. Scotch's time is quadratic in the
// neighbours (1 s for 50,000). A tensor with this many readers is sent to every device in any case.
ByteGraph MakeByteGraph(std::size_t num_groups, std::span<const GroupEdge> edges, std::size_t most_neighbours = 50'000);

// Time of `size` bytes on an idle link, as in the simulator: latency + size / bandwidth. 0 if from == to.
Duration LinkTime(const Cluster& cluster, DeviceId from, DeviceId to, Bytes size);

// The mean over all ordered pairs of distinct devices. 0 if there is only one device.
class MeanLink {
 public:
  MeanLink(const Cluster& cluster, std::span<const DeviceId> devices);
  double Micros(std::int64_t bytes) const { return latency_micros_ + static_cast<double>(bytes) * micros_per_byte_; }

 private:
  double latency_micros_ = 0;
  double micros_per_byte_ = 0;
};

// Mean time of a group on some devices, in µs. Requires: allowed on each of them.
double MeanMicros(const Observation& observation, std::size_t group, std::span<const DeviceId> devices);

// Memory of a running group: persistent, temporary and output bytes.
std::int64_t GroupBytes(const Observation& observation, std::size_t group);

// Memory capacity of a device; the largest int64 if it has no limit.
std::int64_t Capacity(const Device& device);

// Converts a partitioner's parts to a placement. Group i goes to devices[parts[i]] if allowed there, else to its
// fastest allowed device among `devices`, else to its fastest of all.
Placement PlaceParts(const Observation& observation, std::span<const DeviceId> devices,
                     std::span<const std::int32_t> parts);

// `weights` scaled by a common factor to 32-bit numbers whose sum is at most about `max_sum`. If sums overflow, METIS
// returns a wrong cut and Scotch crashes. Unchanged if they already fit. Positive weights stay at least 1, which may
// add weights.size() to the sum. Requires: all >= 0.
std::vector<std::int32_t> ScaledWeights(std::span<const std::int64_t> weights, std::int64_t max_sum);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_HEURISTICS_SOLVER_INPUT_H_
