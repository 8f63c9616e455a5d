#ifndef EMPLACE_SIM_SCHEDULE_SCHEDULE_TRACE_H_
#define EMPLACE_SIM_SCHEDULE_SCHEDULE_TRACE_H_

#include <iosfwd>

#include "sim/cluster.h"
#include "sim/schedule/placed_pipeline.h"
#include "sim/schedule/schedule.h"
#include "sim/schedule/schedule_simulator.h"

namespace emplace {

// Chrome trace events (JSON), which Perfetto and chrome://tracing open: one process per device, a slice for each action
// ("1F0", by the schedule's stages) and for each final op, named after it. `schedule` is OnRanksOf the model. `ts` and
// `dur` in µs.
void WriteScheduleTrace(std::ostream& out, const PipelineSchedule& schedule, const PlacedPipeline& pipeline,
                        const ScheduleResult& result, const Graph& graph, const Cluster& cluster);

}  // namespace emplace

#endif  // EMPLACE_SIM_SCHEDULE_SCHEDULE_TRACE_H_
