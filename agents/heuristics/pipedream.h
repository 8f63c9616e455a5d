#ifndef EMPLACE_AGENTS_HEURISTICS_PIPEDREAM_H_
#define EMPLACE_AGENTS_HEURISTICS_PIPEDREAM_H_

#include <memory>
#include <string>
#include <vector>

#include "agents/agent.h"
#include "agents/environment.h"
#include "agents/throughput/contiguous_units.h"
#include "agents/throughput/pipedream_plan.h"
#include "sim/placement.h"

namespace emplace::agents {

struct PipeDreamOptions {
  LayerUnits layers = LayerUnits::kTogether;  // how ops are combined to layers of the chain
  bool flat = false;                          // one level of links, with the mean bandwidth of all
};

struct PipeDreamAnswer {
  Placement placement;       // placement of groups: the plan without replicas
  PipeDreamPlan straight;    // without replicas
  PipeDreamPlan replicated;  // the plan with replicas
  std::string note;          // the replicated plan in words
};

// Plans the groups, in units (contiguous_units.h), on the accelerators. A placement puts each op on one device, so it
// cannot hold a stage with replicas: the placement is that of the plan without them. Groups that may run on no
// accelerator go to their fastest device, and take no part. Memory is not asked about. Throws InputError, its place
// "pipedream", where PlanPipeDream refuses.
PipeDreamAnswer PlaceAsPipeDream(const Environment& env, const PipeDreamOptions& options);

// Source: Narayanan et al. 2019, "PipeDream: Generalized Pipeline Parallelism for DNN Training", section 3.1.
std::unique_ptr<Agent> MakePipeDreamAgent(OptionReader& reader, const AgentContext& context);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_HEURISTICS_PIPEDREAM_H_
