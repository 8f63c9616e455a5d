#ifndef EMPLACE_PROFILER_EXECUTE_PLACED_PROGRAM_H_
#define EMPLACE_PROFILER_EXECUTE_PLACED_PROGRAM_H_

#include <cstdint>
#include <vector>

#include "sim/base/units.h"
#include "sim/graph.h"
#include "sim/placement.h"

namespace emplace::profiler {

// A placed graph as its devices execute it: which op signals which, what is copied, and when tensors are freed. The
// same rules as the simulator's: a tensor is sent once to each device that reads it, in the order (output index,
// destination); control edges across devices use no channel.
struct PlacedProgram {
  // A tensor on one device: where it was made, or a copy.
  struct Slot {
    TensorId tensor{};
    DeviceId device{};
    Bytes size;
    std::uint32_t uses = 0;  // reading ops on this device and copies that leave it; then it is freed
  };
  struct Copy {
    std::uint32_t from = 0;  // slots
    std::uint32_t to = 0;
    std::vector<OpId> readers;  // notified when it arrives; ascending
  };
  struct Step {
    DeviceId device{};
    std::uint32_t waits = 0;             // number of producers, copies and control edges to wait for
    std::vector<std::uint32_t> inputs;   // slots, in the order of the op's inputs, repeats included
    std::vector<std::uint32_t> frees;    // the same without repeats
    std::vector<std::uint32_t> outputs;  // slots
    std::vector<std::uint32_t> copies;   // sent when it is done, in this order
    std::vector<OpId> next_here;         // notified when it is done; ascending
    std::vector<OpId> next_elsewhere;    // successors by control edges on other devices
  };
  std::vector<Slot> slots;
  std::vector<Copy> copies;
  std::vector<Step> steps;               // indexed by OpId
  std::vector<std::vector<OpId>> roots;  // indexed by device: ops without predecessors; ascending
  std::vector<std::size_t> num_ops;      // indexed by device
  std::vector<std::size_t> num_copies;   // indexed by sending device
};

// Requires: a device below `num_devices` for each op of the graph.
PlacedProgram MakePlacedProgram(const Graph& graph, const Placement& placement, std::size_t num_devices);

}  // namespace emplace::profiler

#endif  // EMPLACE_PROFILER_EXECUTE_PLACED_PROGRAM_H_
