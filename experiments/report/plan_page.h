#ifndef EMPLACE_EXPERIMENTS_REPORT_PLAN_PAGE_H_
#define EMPLACE_EXPERIMENTS_REPORT_PLAN_PAGE_H_

#include <string>

#include "datasets/planner/plan_search.h"
#include "experiments/report/document.h"

namespace emplace::experiments {

// A page for WriteHtml: the best plans; of the best one, or the nearest if none fits, where its step goes, the memory
// of each pipeline rank, and its schedule; then the step times and the memory of all plans that were looked at.
// `network` is the name that the user gave it. Bounded, whatever the answer. Requires: the answer has a plan.
ReportDocument MakePlanPage(const datasets::PlanQuestion& question, const datasets::PlanAnswer& answer,
                            const std::string& network);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_PLAN_PAGE_H_
