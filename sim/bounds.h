#ifndef EMPLACE_SIM_BOUNDS_H_
#define EMPLACE_SIM_BOUNDS_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "sim/base/units.h"
#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/graph.h"
#include "sim/placement.h"

namespace emplace {

// Arguments for a lower bound, by the names that results give them.
inline constexpr std::string_view kCriticalPathBound = "critical path";
inline constexpr std::string_view kWorkBound = "work";

// Lower bounds for all placements of the graph on the cluster, in µs. Times are the engine's: rounded to ns, as `fifo`
// does.
struct Bounds {
  double critical_path_micros = 0;  // each op on its fastest device, transfers free
  double work_micros = 0;           // sum over ops of the fastest time
  double lower_bound_micros = 0;    // max(critical path, work / number of devices)
  std::string_view lower_bound_method = kCriticalPathBound;
  Bytes persistent;  // bytes that some device must hold throughout, summed over all devices
};
Bounds ComputeBounds(const Graph& graph, const Cluster& cluster, const CostTable& costs);

// The same for a step in which op i runs times[i] times, once for each micro-batch: its work by number of devices, in
// µs. Requires: the sum is below 2^63 ns.
double RepeatedWorkMicros(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                          std::span<const std::int64_t> times);

// The load of one placement on each device, without simulating: by DeviceId.
struct DeviceLoad {
  std::size_t ops = 0;
  double busy_micros = 0;        // sum of op times, gaps not counted
  Bytes sent;                    // bytes of the (tensor, destination) pairs that it sends
  std::size_t tensors_sent = 0;  // number of those pairs
};
std::vector<DeviceLoad> ComputeLoads(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                                     const Placement& placement);

}  // namespace emplace

#endif  // EMPLACE_SIM_BOUNDS_H_
