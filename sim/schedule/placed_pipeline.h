#ifndef EMPLACE_SIM_SCHEDULE_PLACED_PIPELINE_H_
#define EMPLACE_SIM_SCHEDULE_PLACED_PIPELINE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/units.h"
#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/graph.h"
#include "sim/placement.h"
#include "sim/schedule/schedule.h"
#include "sim/schedule/schedule_simulator.h"

namespace emplace {

// The role of an op in a pipeline (docs/model.md, S1).
enum class PipelineRole : std::uint8_t { kSourceOp, kForwardOp, kInputOp, kWeightOp, kFinalOp };

// A placed graph of one micro-batch as the stages of a pipeline.
struct PlacedPipeline {
  PipelineModel model;
  std::vector<DeviceId> devices;    // devices of the model's ranks: those of the schedule, then the others
  std::vector<PipelineRole> roles;  // indexed by OpId
  std::vector<std::size_t> stages;  // indexed by OpId; 0 for sources and final ops
  std::vector<OpId> final_ops;      // indexed by their positions in the model
};

// How many devices have stages: those with forward ops that are not sources. With teams and replicas (docs/model.md,
// S21), the teams of one pipeline. Throws InputError where pipelines have different numbers of teams.
std::size_t CountStageDevices(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                              const Placement& placement);

// Takes the stages from the placement (docs/model.md, S1 to S9 and S21 to S25). `rank_of_stage` says how many there are
// and which belong to one device; `wanted` is who says so, for messages: "interleaved:2", a file. Throws InputError
// where the placement is not a pipeline, or has other stages. Requires: the placement passes CheckPlacement.
PlacedPipeline MakePlacedPipeline(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                                  const Placement& placement, const std::vector<std::size_t>& rank_of_stage,
                                  const std::string& wanted);

}  // namespace emplace

#endif  // EMPLACE_SIM_SCHEDULE_PLACED_PIPELINE_H_
