#ifndef EMPLACE_AGENTS_THROUGHPUT_PIPELINE_START_H_
#define EMPLACE_AGENTS_THROUGHPUT_PIPELINE_START_H_

#include <optional>

#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/graph.h"
#include "sim/grouping.h"
#include "sim/placement.h"
#include "sim/schedule/schedule_evaluator.h"

namespace emplace::agents {

// The groups in which a search for a schedule moves ops: layers, forward and backward together, as MakeContiguousUnits
// joins them. A single op that leaves its layer is seldom a pipeline.
Grouping PipelineGroups(const Graph& graph, const Cluster& cluster, const CostTable& costs);

// A placement of ops that runs as the schedule wants: PipelineGroups in one order, cut into the schedule's stages by
// PlanPipeDream without replicas. For each number of accelerators that the schedule allows, one cut; of these the step
// that fits and takes least, else one that runs. none: nothing runs.
std::optional<Placement> PipelineStart(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                                       const ScheduleEvaluator& evaluator);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_THROUGHPUT_PIPELINE_START_H_
