#ifndef EMPLACE_SIM_COST_MEASURED_H_
#define EMPLACE_SIM_COST_MEASURED_H_

#include <memory>

#include "sim/cost_model.h"

namespace emplace {

// The times that the graph itself carries (`time_us`).
std::unique_ptr<CostModel> MakeMeasuredCostModel();

}  // namespace emplace

#endif  // EMPLACE_SIM_COST_MEASURED_H_
