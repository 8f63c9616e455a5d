#ifndef EMPLACE_EXPERIMENTS_REPORT_REPORT_IMPROVEMENT_H_
#define EMPLACE_EXPERIMENTS_REPORT_REPORT_IMPROVEMENT_H_

#include <optional>
#include <vector>

#include "experiments/run/run_reader.h"

namespace emplace::experiments {

// The improvement in tables, tests, curves and figures: the reduction of the step time relative to the same graph with
// everything on the fastest device, in percent. The reference is the same for every agent, wherever its search started.
// Negative: slower than one device. nullopt if one of the times is not known.
std::optional<double> ImprovementPercent(const std::optional<double>& single_device_micros,
                                         const std::optional<double>& micros);

// Earlier versions of emplace did not record the step time of everything on one device. This fills it in from another
// trial of the same problem, or from the result of an agent single_device on it. If real devices gave the rewards, the
// recorded time is simulated. It is then replaced by the time that single_device measured, or removed. In earlier
// versions a trained policy was applied starting from one device; there it is the first placement's time.
void FillSingleDeviceTimes(std::vector<TrialRecord>* trials);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_REPORT_IMPROVEMENT_H_
