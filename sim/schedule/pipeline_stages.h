#ifndef EMPLACE_SIM_SCHEDULE_PIPELINE_STAGES_H_
#define EMPLACE_SIM_SCHEDULE_PIPELINE_STAGES_H_

#include <cstddef>
#include <string>
#include <vector>

#include "sim/base/units.h"
#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/graph.h"
#include "sim/placement.h"
#include "sim/schedule/placed_pipeline.h"

namespace emplace {

// A placed graph, for the functions that make a pipeline of it.
struct PlacedGraph {
  const Graph& graph;
  const Cluster& cluster;
  const CostTable& costs;
  const Placement& placement;

  // With the op gap that follows it.
  Duration Time(OpId op) const;
  const std::string& DeviceName(OpId op) const { return cluster.device(placement[op]).name; }
};

// The role of each op. Throws InputError where a pass reads what a later one makes.
std::vector<PipelineRole> PipelineRoles(const PlacedGraph& placed);

// The devices in the order of the pipeline, and each op's stage: 0 for sources and final ops. If there are several
// pipelines (teams.h), those of the first one come first; members of a team follow one another. `roles` gets the
// weights' ops that are final because they add up what several stages made. Throws as MakePlacedPipeline.
struct StageChoice {
  std::vector<DeviceId> device_of_rank = {};
  std::vector<std::size_t> stages = {};
  // In graphs whose devices form teams and replicas, every device has ranks and stages of its own.
  std::vector<std::size_t> rank_of_stage = {};
  std::vector<std::size_t> schedule_rank = {};       // indexed by rank: the rank of the schedule whose list it runs
  std::vector<std::size_t> schedule_stage = {};      // indexed by stage: the stage of the schedule
  std::vector<std::vector<std::size_t>> teams = {};  // ranks that act together; each rank is in one
};
StageChoice ChooseStages(const PlacedGraph& placed, const std::vector<std::size_t>& rank_of_stage,
                         const std::string& wanted, std::vector<PipelineRole>* roles);

// Calls `visit` with the ops that the op reads or waits for, repeats included.
template <typename Visit>
void ForEachProducer(const Graph& graph, OpId op, Visit visit) {
  for (const TensorId tensor : graph.inputs(op)) visit(graph.tensor(tensor).producer);
  for (const OpId producer : graph.control_inputs(op)) visit(producer);
}

}  // namespace emplace

#endif  // EMPLACE_SIM_SCHEDULE_PIPELINE_STAGES_H_
