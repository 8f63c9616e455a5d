#ifndef EMPLACE_TESTS_BENCH_TOPOLOGICAL_SWEEP_H_
#define EMPLACE_TESTS_BENCH_TOPOLOGICAL_SWEEP_H_

#include <cstdint>
#include <span>
#include <vector>

#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/graph.h"
#include "sim/placement.h"

namespace emplace::testing {

// A lower bound on the time of any simulator of a step. It visits ops in id order, starts each when its inputs have
// arrived and its device is free, and sends each tensor once to each device that reads it. It has no queues, so it does
// not order the ops that wait for one device, and its step time is not correct. It does only the reading, adding and
// comparing that every simulator needs. Links are those between the first two devices.
class TopologicalSweep {
 public:
  TopologicalSweep(const Graph& graph, const Cluster& cluster, const CostTable& costs);

  // Returns the time when the last op ends, in ns.
  std::int64_t Run(std::span<const DeviceId> placement);

 private:
  struct Step {
    std::int64_t time = 0;
    std::uint32_t tensors = 0;  // tensors with readers: the next ones in tensors_
    std::uint32_t waiting = 0;  // control consumers: the next ones in readers_, after the readers
  };
  struct Sent {
    std::int64_t transfer = 0;
    std::uint32_t readers = 0;  // the next ones in readers_
  };
  std::vector<Step> steps_;  // [num_ops]
  std::vector<Sent> tensors_;
  std::vector<std::uint32_t> readers_;
  std::int64_t op_gap_ = 0;
  std::int64_t latency_ = 0;
  std::int64_t link_gap_ = 0;
  std::vector<std::int64_t> ready_;         // [num_ops]
  std::vector<std::int64_t> device_free_;   // [num_devices]
  std::vector<std::int64_t> channel_free_;  // [num_devices]
  std::vector<std::int64_t> arrival_;       // [num_devices]
};

}  // namespace emplace::testing

#endif  // EMPLACE_TESTS_BENCH_TOPOLOGICAL_SWEEP_H_
