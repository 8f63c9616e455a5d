#ifndef EMPLACE_TESTS_TESTING_REFERENCE_SIMULATOR_H_
#define EMPLACE_TESTS_TESTING_REFERENCE_SIMULATOR_H_

#include <cstdint>
#include <vector>

#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/graph.h"
#include "sim/placement.h"

namespace emplace::testing {

// A slow and simple implementation of the rules of engine `fifo` (docs/model.md), without shared code. F10 and F11 are
// a scan over all ops, and memory is a sum over all allocations at the start of every allocation.
struct ReferenceResult {
  std::int64_t step_time_ns = 0;
  std::vector<std::int64_t> start_ns;    // [num_ops]
  std::vector<std::int64_t> peak_bytes;  // [num_devices]
};
ReferenceResult SimulateSlowly(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                               const Placement& placement);

}  // namespace emplace::testing

#endif  // EMPLACE_TESTS_TESTING_REFERENCE_SIMULATOR_H_
