#ifndef EMPLACE_DATASETS_PLANNER_PLAN_JSON_H_
#define EMPLACE_DATASETS_PLANNER_PLAN_JSON_H_

#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "datasets/parallel_plan.h"
#include "datasets/planner/plan_check.h"
#include "datasets/planner/plan_search.h"

namespace emplace::datasets {

// Tokens that all devices together train on in a second.
double TokensPerSecond(const PlanQuestion& question, double step_micros);
double TokensPerSecondOfGpu(const PlanQuestion& question, const ScoredPlan& scored);
// The share of the peak of its devices that the network's FLOP are in a step of the plan.
double MfuPercent(const PlanQuestion& question, const PlanAnswer& answer, const ScoredPlan& scored);
// What a step of the plan costs, and a billion tokens, in the unit of the price. Requires: there is a price.
double CostOfStep(const PlanQuestion& question, const ScoredPlan& scored);
double CostOfBillionTokens(const PlanQuestion& question, const ScoredPlan& scored);

// What a fine-tuning trains, in a sentence; "" if it trains all weights.
std::string AdaptersText(const PlanQuestion& question);

// What a step is spent on. The parts add up to its time.
struct TimePart {
  std::string_view key;   // of `time_us` in JSON
  std::string_view name;  // for people
  double micros = 0;
};
std::vector<TimePart> TimePartsOf(const StepTime& time);

// The answer as `emplace.plans`, version 1 (docs/formats.md); of a check, with `checked` and `helping`.
void WritePlans(std::ostream& out, const PlanQuestion& question, const PlanAnswer& answer);
void WritePlanCheck(std::ostream& out, const PlanQuestion& question, const PlanCheck& check);

// The plan for a plan.json that others read: it says which network it is of, with which options, and which layers each
// stage has.
ParallelPlan WithNetwork(const PlanQuestion& question, ParallelPlan plan, std::string network, OptionMap settings);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_PLANNER_PLAN_JSON_H_
