#ifndef EMPLACE_DATASETS_IMPORTERS_TRACE_MEMORY_H_
#define EMPLACE_DATASETS_IMPORTERS_TRACE_MEMORY_H_

#include <cstdint>
#include <vector>

#include "datasets/importers/trace_rank.h"
#include "datasets/importers/trace_step.h"

namespace emplace::datasets {

// Adds what the allocations of a rank say: the tensors of its ops, and the measured peak. `users`: for each allocation
// or release of the trace, the op of the step that makes it; kInvalidTraceId: none.
//
//   - What is allocated in the step and released in it lives from the one op to the other. If another thread releases
//     it, it lives until the op that its own thread runs then.
//   - What is there before the step and released in it lives from the first op of the thread that releases it.
//   - What is not released lives until the last op.
void AddMemory(const MeasuredRank& rank, const std::vector<std::uint32_t>& users, TraceStep* step);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_IMPORTERS_TRACE_MEMORY_H_
