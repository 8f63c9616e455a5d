#ifndef EMPLACE_EXPERIMENTS_REPORT_REPORT_HARDWARE_H_
#define EMPLACE_EXPERIMENTS_REPORT_REPORT_HARDWARE_H_

#include <optional>
#include <string>
#include <vector>

#include "experiments/report/report_document.h"
#include "experiments/run/run_reader.h"

namespace emplace::experiments {

// A placement asked of the simulator and of real devices. Times in µs.
struct HardwarePoint {
  std::string graph;  // GraphGroup
  std::string label;  // agent.label
  double simulated_micros = 0;
  double measured_micros = 0;
  std::optional<double> interleaved_micros = {};  // MeasuredSteps::interleaved_micros
};

// What the trials ran for real: checks during searches, and the best placements of those whose rewards the simulator
// gave (others have no simulated time of theirs). In the order of the trials.
std::vector<HardwarePoint> HardwarePoints(const std::vector<TrialRecord>& trials);

// How far the simulator is: for each graph the number of placements, median, 90th percentile and largest error of the
// step time, its mean with sign, and the correlation of ranks; and simulated against measured times as a chart.
// Where op times were taken between the steps too, a second row and chart say the same of what was simulated with them.
// Empty where nothing was run for real. `labels`: of every chart of the page.
std::vector<ReportBlock> HardwareBlocks(const std::vector<TrialRecord>& trials, const std::vector<std::string>& labels);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_REPORT_HARDWARE_H_
