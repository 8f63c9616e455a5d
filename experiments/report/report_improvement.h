#ifndef EMPLACE_EXPERIMENTS_REPORT_REPORT_IMPROVEMENT_H_
#define EMPLACE_EXPERIMENTS_REPORT_REPORT_IMPROVEMENT_H_

#include <optional>
#include <vector>

#include "experiments/run/run_reader.h"

namespace emplace::experiments {

// The improvement of tables, tests, curves and figures: how much shorter a step time is than the step time of the same
// graph with everything on the fastest device, in percent of the latter. It is the same base for every agent, wherever
// its search began. Negative: slower than one device. nullopt where one of the two times is not known.
std::optional<double> ImprovementPercent(const std::optional<double>& single_device_micros,
                                         const std::optional<double>& micros);

// Earlier versions of emplace did not record the step time of everything on one device. This takes it from another
// trial of the same problem that did, or from what an agent single_device found there. Where real devices gave the
// rewards, the recorded time is the simulator's: there it is replaced by what single_device measured, or removed. A
// trained policy was applied from one device on in earlier versions: there it is the first placement's.
void FillSingleDeviceTimes(std::vector<TrialRecord>* trials);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_REPORT_IMPROVEMENT_H_
