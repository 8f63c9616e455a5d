#ifndef EMPLACE_AGENTS_THROUGHPUT_LOAD_REPORT_H_
#define EMPLACE_AGENTS_THROUGHPUT_LOAD_REPORT_H_

#include "agents/throughput/stage_costs.h"
#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/formats/result_json.h"
#include "sim/graph.h"
#include "sim/placement.h"

namespace emplace::agents {

// What there is to know about a placement whose objective is the largest load of a device: a report with is_max_load.
// `loads` are the costs of the objective, made of the other arguments. The lower bound is MaxLoadBoundMicros.
StepReport MakeLoadReport(const Graph& graph, const Cluster& cluster, const CostTable& costs, const StageCosts& loads,
                          const Placement& placement);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_THROUGHPUT_LOAD_REPORT_H_
