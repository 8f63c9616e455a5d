#ifndef EMPLACE_EXPERIMENTS_REPORT_IMPROVEMENT_H_
#define EMPLACE_EXPERIMENTS_REPORT_IMPROVEMENT_H_

#include <vector>

#include "experiments/run/run_reader.h"

namespace emplace::experiments {

// Earlier versions of emplace did not record the step time of everything on one device. This fills it in from another
// trial of the same problem, or from the result of an agent single_device on it. If real devices gave the rewards, the
// recorded time is simulated. It is then replaced by the time that single_device measured, or removed. In earlier
// versions a trained policy was applied starting from one device; there it is the first placement's time.
void FillSingleDeviceTimes(std::vector<TrialRecord>* trials);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_IMPROVEMENT_H_
