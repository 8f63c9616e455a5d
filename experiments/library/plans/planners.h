#ifndef EMPLACE_EXPERIMENTS_LIBRARY_PLANS_PLANNERS_H_
#define EMPLACE_EXPERIMENTS_LIBRARY_PLANS_PLANNERS_H_

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "experiments/library/plans/plan_cells.h"
#include "sim/base/rng.h"

namespace emplace::experiments {

// A planner that is compiled in: the first entries of the tier `plans`, with which others are compared.
struct PlannerEntry {
  std::string_view name;
  std::string_view summary;
  std::string_view source;
  // The settings of the cell that it expects to run, the best first. It does not ask for measurements.
  std::vector<std::size_t> (*order)(const PlanCell& cell, Rng& rng);
  bool is_random = false;
};
std::span<const PlannerEntry> AllPlanners();

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_LIBRARY_PLANS_PLANNERS_H_
