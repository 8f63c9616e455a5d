#ifndef EMPLACE_DATASETS_MEMORY_STEP_MEMORY_H_
#define EMPLACE_DATASETS_MEMORY_STEP_MEMORY_H_

#include "datasets/memory/rank_program.h"
#include "sim/graph.h"
#include "sim/placement.h"
#include "sim/timeline.h"

namespace emplace::datasets {

// What a device allocates and frees in the course of a simulated step: the allocations of docs/model.md, M1 to M7, so
// that without the allocator's rounding the peak is that of the simulator. Labels are kinds of ops, and live as long as
// the graph.
RankProgram MakeStepProgram(const Graph& graph, const Placement& placement, const Timeline& timeline, DeviceId device);

// Which class the memory of a tensor is of.
MemoryClass ClassOf(const Graph& graph, TensorId tensor);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_MEMORY_STEP_MEMORY_H_
