#ifndef EMPLACE_SIM_NETWORK_COLLECTIVE_FLOWS_H_
#define EMPLACE_SIM_NETWORK_COLLECTIVE_FLOWS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/base/units.h"
#include "sim/graph.h"
#include "sim/network/collective_times.h"

namespace emplace {

// A part of a message on its way from one device to another.
struct CollectiveFlow {
  std::size_t from = 0;  // positions among the collective's devices
  std::size_t to = 0;
  Bytes size;
  std::vector<std::uint32_t> after;  // flows, by position, that have to have arrived: smaller than its own
};

// The flows of a collective of n >= 2 devices (docs/model.md, K13), each after those that it waits for.
//   ring    n parts go around: n - 1 rounds of a reduction, n - 1 of a gathering, or both; a broadcast is cut into
//           kBroadcastParts, which follow one another
//   tree    parts of at most kTreePart, up a binary tree and down again
//   direct  each pair at once
// Throws nothing. Requires: as CollectiveTimes::Micros of that algorithm.
inline constexpr std::int64_t kBroadcastParts = 16;
inline constexpr std::int64_t kTreePart = std::int64_t{1} << 20;
inline constexpr std::int64_t kMostTreeParts = 64;
std::vector<CollectiveFlow> CollectiveFlows(CollectiveKind kind, Bytes size, std::size_t num_devices,
                                            CollectiveAlgorithm algorithm);

}  // namespace emplace

#endif  // EMPLACE_SIM_NETWORK_COLLECTIVE_FLOWS_H_
