#ifndef EMPLACE_SIM_COST_PROFILED_H_
#define EMPLACE_SIM_COST_PROFILED_H_

#include <memory>

#include "sim/cost_model.h"
#include "sim/profile.h"

namespace emplace {

// The times of a profile: `median_us` of the entry with the op's full signature, else with its signature (profile.h),
// and the device's kind; none if there is no such entry. The order of the attrs does not matter. Contention is the
// entry's own, or that of the op's class, where it is above kLeastContention: less is noise.
inline constexpr double kLeastContention = 1.05;
std::unique_ptr<CostModel> MakeProfiledCostModel(const Profile& profile);

}  // namespace emplace

#endif  // EMPLACE_SIM_COST_PROFILED_H_
