#ifndef EMPLACE_AGENTS_BOUNDS_WORK_PROGRAM_H_
#define EMPLACE_AGENTS_BOUNDS_WORK_PROGRAM_H_

#include <cstdint>

#include "agents/bounds/energetic_bound.h"
#include "agents/bounds/relaxation.h"
#include "sim/cluster.h"
#include "sim/graph.h"

namespace emplace::agents {

struct WorkProgramBound {
  std::int64_t nanos = 0;  // 0: the solver found nothing in its time
  Prices prices;           // prices of the device types, for energetic reasoning; empty with 0
};

// The linear program of work on unrelated machines (Lawler and Labetoulle 1978; Lenstra, Shmoys and Tardos 1990,
// section 2), with memory and transfers. A colocation class is on the types of devices in fractions that add up to 1.
// No type has more work than its devices can do in the step; none has more persistent bytes than they hold (if all of
// them have a limit); what must leave a type because a reader is on another takes its channels' time. The answer is the
// dual bound of the solver's prices (DualBound), so it holds even if the solver stops early, after `seconds`. It holds
// for placements that fit in memory. Derivation: docs/model.md, B9. Throws InputError as SolveProgram does.
WorkProgramBound SolveWorkProgram(const Graph& graph, const Cluster& cluster, const Relaxation& problem,
                                  double seconds);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_BOUNDS_WORK_PROGRAM_H_
