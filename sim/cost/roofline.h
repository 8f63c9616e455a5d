#ifndef EMPLACE_SIM_COST_ROOFLINE_H_
#define EMPLACE_SIM_COST_ROOFLINE_H_

#include <memory>

#include "sim/cost_model.h"

namespace emplace {

// Time = launch + max(FLOP / (peak x efficiency), bytes moved / (memory bandwidth x efficiency)), with the work of the
// op catalogue and the rates of the device kind. No time for an op kind or a device kind that has none of these.
std::unique_ptr<CostModel> MakeRooflineCostModel();

}  // namespace emplace

#endif  // EMPLACE_SIM_COST_ROOFLINE_H_
