#ifndef EMPLACE_EXPERIMENTS_REPORT_SCHEDULE_EXPLANATION_H_
#define EMPLACE_EXPERIMENTS_REPORT_SCHEDULE_EXPLANATION_H_

#include <iosfwd>
#include <string>
#include <vector>

#include "sim/base/units.h"
#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/formats/result_json.h"
#include "sim/graph.h"
#include "sim/placement.h"
#include "sim/schedule/schedule_evaluator.h"
#include "sim/schedule/schedule_explanation.h"

namespace emplace::experiments {

// A step of a placement with a schedule, explained, and simulated again with one thing changed at a time.
struct ExplainedSchedule {
  struct WhatIf {
    std::string change;  // "twice the bandwidth"
    Duration step_time{};
  };
  StepReport report;
  ScheduledStep step;
  ScheduleExplanation explanation;
  std::vector<WhatIf> what_if;
};
// Throws InputError as SimulatePlacedSchedule does.
ExplainedSchedule MakeExplainedSchedule(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                                        const Placement& placement, const ScheduleChoice& choice,
                                        const SchedulePlaces& places);

// For terminals.
void PrintExplainedSchedule(std::ostream& out, const ExplainedSchedule& explained, const Cluster& cluster);
// `emplace.explanation` version 1, with a schedule: docs/formats.md.
void WriteExplainedSchedule(std::ostream& out, const ExplainedSchedule& explained, const Graph& graph,
                            const Cluster& cluster);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_SCHEDULE_EXPLANATION_H_
