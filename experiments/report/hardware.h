#ifndef EMPLACE_EXPERIMENTS_REPORT_HARDWARE_H_
#define EMPLACE_EXPERIMENTS_REPORT_HARDWARE_H_

#include <optional>
#include <string>
#include <vector>

#include "experiments/report/document.h"
#include "experiments/run/run_reader.h"

namespace emplace::experiments {

// One placement with simulated and measured step times. Times in µs.
struct HardwarePoint {
  std::string graph;  // GraphGroup
  std::string label;  // agent.label
  double simulated_micros = 0;
  double measured_micros = 0;
  std::optional<double> interleaved_micros = {};  // MeasuredSteps::interleaved_micros
};

// Placements measured on hardware: checks during searches, and the best placements of trials whose rewards came from
// the simulator (other best placements have no simulated time). In the order of the trials.
std::vector<HardwarePoint> HardwarePoints(const std::vector<TrialRecord>& trials);

// Errors of the simulator for each graph: the number of placements; median, 90th percentile, largest and mean signed
// error of the step time; and the rank correlation. Also a chart of simulated against measured times. If op times were
// also measured between the steps, a second row and chart use them. Empty if nothing was measured. `labels`: of all
// charts of the page.
std::vector<ReportBlock> HardwareBlocks(const std::vector<TrialRecord>& trials, const std::vector<std::string>& labels);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_HARDWARE_H_
