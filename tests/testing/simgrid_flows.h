#ifndef EMPLACE_TESTS_TESTING_SIMGRID_FLOWS_H_
#define EMPLACE_TESTS_TESTING_SIMGRID_FLOWS_H_

#include <cstdint>
#include <vector>

namespace emplace::testing {

// Flows one after another: each starts when the one before it has ended.
struct FlowChain {
  struct Flow {
    std::vector<std::uint32_t> route;  // links, at least one
    std::int64_t bytes = 0;            // over 0
  };
  std::int64_t start_ns = 0;
  std::vector<Flow> flows;
};

struct SimGridRun {
  std::vector<std::vector<double>> ends_ns;  // ends of each flow of each chain
  double seconds = 0;                        // CPU time of the simulation, without the platform
};

// The chains by SimGrid: its fluid model without latencies, cross traffic and windows ("CM02"), in which flows share
// links max-min fairly. `bytes_per_ns`: of each link. Requires: called once in a process, as SimGrid wants it.
SimGridRun SimulateBySimGrid(const std::vector<double>& bytes_per_ns, const std::vector<FlowChain>& chains);

struct FlowRun {
  std::vector<std::vector<std::int64_t>> ends_ns;
  double seconds = 0;  // CPU time without setting up the network's links
};

// The same by FlowNetwork.
FlowRun SimulateChains(const std::vector<double>& bytes_per_ns, const std::vector<FlowChain>& chains);

}  // namespace emplace::testing

#endif  // EMPLACE_TESTS_TESTING_SIMGRID_FLOWS_H_
