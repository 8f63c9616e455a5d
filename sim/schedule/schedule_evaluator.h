#ifndef EMPLACE_SIM_SCHEDULE_SCHEDULE_EVALUATOR_H_
#define EMPLACE_SIM_SCHEDULE_SCHEDULE_EVALUATOR_H_

#include <cstddef>
#include <optional>
#include <string>

#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/evaluator.h"
#include "sim/graph.h"
#include "sim/placement.h"
#include "sim/schedule/placed_pipeline.h"
#include "sim/schedule/schedule.h"
#include "sim/schedule/schedule_simulator.h"

namespace emplace {

// Which schedule a step runs.
struct ScheduleChoice {
  std::string name;               // name for ParseScheduleName, or of a file
  std::size_t micro_batches = 1;  // number of micro-batches of a named schedule
  std::optional<PipelineSchedule> given =
      {};  // schedule from a file; none: the named schedule for the devices of the placement

  // How many stages this many devices have, and which.
  std::vector<std::size_t> StageRanks(std::size_t ranks) const;
};

// Everything that a step of a placement follows from.
struct ScheduledStep {
  PipelineSchedule schedule;
  PlacedPipeline pipeline;
  ScheduleResult result;
};
// The place of errors (InputError) that are of each of these: files, options.
struct SchedulePlaces {
  std::string graph;
  std::string placement;
  std::string schedule;
};
// Throws InputError where the placement is not a pipeline for the schedule, and where there is no schedule for this
// many devices. Each rank has an issue lane of its own, also where the cluster says that devices share one.
ScheduledStep SimulatePlacedSchedule(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                                     const Placement& placement, const ScheduleChoice& choice,
                                     const SchedulePlaces& places = {});

// Answers with the time of a pipelined step (docs/model.md, S1 to S20), of a graph that is one micro-batch. A placement
// that is not a pipeline for the schedule cannot run: StepResult::runs is false, and the step time is longer than all
// ops of all micro-batches take on their slowest device.
class ScheduleEvaluator : public Evaluator {
 public:
  // Keeps references to the first three. Throws InputError on an unknown name.
  ScheduleEvaluator(const Graph& graph, const Cluster& cluster, const CostTable& costs, ScheduleChoice choice);

  const ScheduleChoice& choice() const { return choice_; }

  // As SimulatePlacedSchedule.
  ScheduledStep Simulate(const Placement& placement) const;

  // Start times are not given. Peak memory always is, but where the placement cannot run.
  StepResult Run(const Placement& placement) const override;

 private:
  const Graph& graph_;
  const Cluster& cluster_;
  const CostTable& costs_;
  ScheduleChoice choice_;
  double cannot_run_micros_ = 0;
};

}  // namespace emplace

#endif  // EMPLACE_SIM_SCHEDULE_SCHEDULE_EVALUATOR_H_
