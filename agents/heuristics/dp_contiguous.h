#ifndef EMPLACE_AGENTS_HEURISTICS_DP_CONTIGUOUS_H_
#define EMPLACE_AGENTS_HEURISTICS_DP_CONTIGUOUS_H_

#include <memory>
#include <optional>

#include "agents/agent.h"
#include "agents/environment.h"
#include "agents/throughput/contiguous_plan.h"
#include "agents/throughput/stage_costs.h"
#include "sim/placement.h"

namespace emplace::agents {

struct DpContiguousOptions {
  StageCostOptions costs;
  ContiguousOptions plan;
};

// The contiguous split of the groups with the smallest largest load of a device (PlanContiguous). The objective is the
// time per sample of a pipeline, not that of one step. Where no split fits in memory, fewer bytes count: persistent
// ones only, then none. Where there is no split either, because the ops of a cycle run on no common device, each group
// goes to its fastest device. Throws InputError, its place "dp_contiguous", where PlanContiguous refuses.
// Where the environment's objective is the largest load, its costs are taken instead of options.costs.
Placement PlaceContiguously(const Environment& env, const DpContiguousOptions& options);

// The optimal contiguous split of the groups, layers apart, for the costs of the environment's objective; of one
// topological order where there are too many ideals. none: nothing fits, or devices are of too many sorts.
// Requires: env.stage_costs().
std::optional<Placement> FinestContiguousSplit(const Environment& env);

// Source: Tarnawski et al. 2020, "Efficient algorithms for device placement of DNN graph operators", the dynamic
// program for throughput.
std::unique_ptr<Agent> MakeDpContiguousAgent(OptionReader& reader, const AgentContext& context);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_HEURISTICS_DP_CONTIGUOUS_H_
