#ifndef EMPLACE_EXPERIMENTS_LIBRARY_PLANS_PLAN_ESTIMATES_H_
#define EMPLACE_EXPERIMENTS_LIBRARY_PLANS_PLAN_ESTIMATES_H_

#include <vector>

#include "datasets/models/transformer.h"
#include "datasets/planner/plan_machine.h"
#include "experiments/library/plans/plan_cells.h"

namespace emplace::experiments {

// The network and the machine of a cell.
struct PlanProblem {
  explicit PlanProblem(const PlanCell& cell);

  const PlanCell& cell;
  datasets::TransformerNetwork network;
  datasets::PlanMachine machine;

  // Whether the framework divides sequences among tensor-parallel ranks where tensor parallelism does nothing.
  bool has_sequence_parallel() const;
  bool has_fused_attention() const;
  double memory_bytes() const;  // of a device
};

// What a model of published formulas expects of a setting.
struct PlanEstimate {
  double step_s = 0;
  double bytes = 0;  // of the fullest rank
};

// The usual formula for memory: 16 bytes for each parameter that a rank has, of which ZeRO 1 divides the optimizer's 12
// (Rajbhandari et al. 2020, "ZeRO", section 3.1); 34 bytes for each token and unit of width of each layer, and 5 for
// each score of attention that is kept (Korthikanti et al. 2022, "Reducing Activation Recomputation", section 4), of as
// many micro-batches as the first stage has in flight.
double UsualBytes(const PlanProblem& problem, const PlanSetting& setting);

// UsualBytes, and a step in three terms: 6 FLOP for each parameter and token at half of the peak rate, times the fill
// of the pipeline (Narayanan et al. 2021, "Efficient Large-Scale Language Model Training", section 2.2); the rings of
// tensor parallelism; and that of data parallelism.
PlanEstimate EstimateInThreeTerms(const PlanProblem& problem, const PlanSetting& setting);

// Isaev et al. 2023, "Calculon: a Methodology and Tool for High-Level Codesign of Systems and Large Language Models":
// the time of each op of a block is that of its FLOP and that of its bytes, one after the other, at efficiencies that
// depend on their number; collectives are not hidden; blocks are all that there is, without an embedding and a loss.
// The rates and efficiencies are those of the systems h100_80g_nvl8 and a100_80g that are published with Calculon.
PlanEstimate EstimateAsCalculon(const PlanProblem& problem, const PlanSetting& setting);

// SimuMax (Moore Threads 2025, its pages on systems and models): the time of each op is the larger of that of its FLOP
// and that of its bytes, at one efficiency for each kind of op, where its shape was not measured; collectives are rings
// with a latency for each hop, and share the network among the ranks of a node; 1F1B. The rates and efficiencies are
// those of the systems h100_nvlink and a100_bf16 that are published with SimuMax.
PlanEstimate EstimateAsSimuMax(const PlanProblem& problem, const PlanSetting& setting);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_LIBRARY_PLANS_PLAN_ESTIMATES_H_
