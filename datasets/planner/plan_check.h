#ifndef EMPLACE_DATASETS_PLANNER_PLAN_CHECK_H_
#define EMPLACE_DATASETS_PLANNER_PLAN_CHECK_H_

#include <optional>
#include <string>
#include <vector>

#include "datasets/memory/training_setup.h"
#include "datasets/planner/plan_search.h"

namespace emplace::datasets {

// A change of one part of a plan, and the best plan with it.
struct PlanChange {
  std::string text;  // "micro_batch 2 instead of 1"
  ScoredPlan plan;
};

struct PlanCheck {
  std::string illegal;                // the rule that the plan breaks; "": none, and `checked` is there
  std::optional<ScoredPlan> checked;  // its step, its peak, and whether it fits
  PlanAnswer answer;                  // the best plans for the same question
  // Changes that make it fit or, if it does, faster by more than predictions err: the fastest first.
  std::vector<PlanChange> helping;
};

// The network that a setup trains, as far as plans depend on it. Throws InputError on BERT.
TransformerNetwork NetworkOf(const TrainingSetup& setup);
// The degrees, batches, ZeRO stage, recomputation and stages of a setup.
ParallelPlan PlanOf(const TrainingSetup& setup);

// Times the plan, looks whether it fits, and compares it with the best plans and with those that differ from it in one
// part. Throws InputError where the plan has another number of devices than the machine.
PlanCheck CheckPlan(const PlanQuestion& question, const ParallelPlan& plan);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_PLANNER_PLAN_CHECK_H_
