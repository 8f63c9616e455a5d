#ifndef EMPLACE_AGENTS_THROUGHPUT_PIPELINE_START_H_
#define EMPLACE_AGENTS_THROUGHPUT_PIPELINE_START_H_

#include <functional>
#include <optional>

#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/graph.h"
#include "sim/grouping.h"
#include "sim/placement.h"
#include "sim/schedule/schedule_evaluator.h"

namespace emplace::agents {

// The groups in which a search for a schedule moves ops: layers, forward and backward together, as MakeContiguousUnits
// joins them. A single op that leaves its layer is seldom a pipeline. Groups of ops that have no device in common are
// split by where they may run.
Grouping PipelineGroups(const Graph& graph, const Cluster& cluster, const CostTable& costs);

// A CPU is not a stage beside accelerators unless the user asks for it: costs in which ops have no time on CPUs, but in
// groups that may run on no accelerator. The same costs where all devices are CPUs, or none is.
CostTable WithoutCpuStages(const Cluster& cluster, const CostTable& costs, const Grouping& grouping);

// The finest groups that are placed well together: each forward op with what it reads from sources, with the backward
// ops that are named after it ("gradients/NAME/.."), and with the updates of its weights. Other backward ops are alone.
Grouping ForwardOpGroups(const Graph& graph);

// A placement of ops that the schedule can run, in stages of parts that follow one another (pipeline_chain.h); a
// group is never split. It is the fastest of all that fit, or else the one that exceeds memory
// least; none: nothing runs. It is never worse than everything on one accelerator.
//
// For each number of stage devices from 1 to all accelerators that the schedule allows, and some orders of unlike
// devices, cuts are compared by PipelineChain's model, with the time and the memory that a stage has with the
// micro-batches that it holds:
//   - those that make the slowest stage as fast as memory allows, filled from either end: by bisection. Where no cut
//     fits, those that exceed memory by the smallest factor;
//   - even ones: in parts, in time, and in parts that take as long as most do (blocks), the rest at the ends.
// The best cuts then move boundaries, one or several neighbours together, as long as that helps. Last, the evaluator
// decides among them, all even cuts and all single devices, and where it says that a stage is larger than the model
// has it, boundaries move again with that in mind.
//
// With `finer` groups all this is done again, from the best cut on: layers are then cut too, where that is better.
// How much is tried depends on the size of the problem, not on time; `stop` ends it with the best so far, and is called
// often. Sources: the bottleneck of contiguous stages is
// that of PipeDream (Narayanan et al. 2019, 3.1) and Tarnawski et al. 2020; memory by micro-batches in flight is as in
// Narayanan et al. 2021 (PipeDream-2BW), 4; the moves are ours.
std::optional<Placement> PipelineStart(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                                       const ScheduleEvaluator& evaluator, const Grouping& grouping,
                                       const std::optional<Grouping>& finer = std::nullopt,
                                       const std::function<bool()>& stop = {});

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_THROUGHPUT_PIPELINE_START_H_
