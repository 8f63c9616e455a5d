#ifndef EMPLACE_AGENTS_THROUGHPUT_LOAD_REPORT_H_
#define EMPLACE_AGENTS_THROUGHPUT_LOAD_REPORT_H_

#include <iosfwd>

#include "agents/throughput/stage_costs.h"
#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/formats/result_json.h"
#include "sim/graph.h"
#include "sim/placement.h"

namespace emplace::agents {

// The report on a placement whose objective is the largest load of a device. step_time_micros is that
// load for one micro-batch, peaks are the bytes of a device's ops, and there is no critical path and no engine. `loads`
// are the costs of the objective, made of the other arguments. The lower bound is MaxLoadBoundMicros.
StepReport MakeLoadReport(const Graph& graph, const Cluster& cluster, const CostTable& costs, const StageCosts& loads,
                          const Placement& placement);

// Writes it as `emplace.result`, and as text for people.
void WriteLoadResult(std::ostream& out, const StepReport& report);
void PrintLoadReport(std::ostream& out, const StepReport& report);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_THROUGHPUT_LOAD_REPORT_H_
