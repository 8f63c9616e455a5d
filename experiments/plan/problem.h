#ifndef EMPLACE_EXPERIMENTS_PLAN_PROBLEM_H_
#define EMPLACE_EXPERIMENTS_PLAN_PROBLEM_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "agents/search.h"
#include "experiments/inputs/load.h"
#include "experiments/plan/trial_choice.h"
#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/graph.h"

namespace emplace::experiments {

// One graph of the trial with its cluster, costs and grouping. Places are paths in the spec.
agents::SearchProblem LoadProblem(const GraphSource& graph, const TrialChoice& choice);
// The complete trial except its checkpoint, threads and evaluator.
agents::SearchSpec LoadSearchSpec(const TrialChoice& choice);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_PLAN_PROBLEM_H_
