#ifndef EMPLACE_EXPERIMENTS_VALIDATION_CALIBRATION_H_
#define EMPLACE_EXPERIMENTS_VALIDATION_CALIBRATION_H_

#include <cstddef>
#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/options.h"

namespace emplace::experiments {

// A published figure and the settings to reproduce it.
struct CalibrationFigure {
  enum class Use { kFit, kHeldOut, kExcluded };

  std::string figure;  // paper, table, row, column
  std::string model;
  OptionMap set;
  std::string cluster;
  std::string device;  // everything on this device, or
  std::string agent;   // placed by this agent on the first `gpus` accelerators (and the CPU)
  std::size_t gpus = 0;
  std::optional<double> published_seconds;  // none: out of memory
  Use use = Use::kHeldOut;
  std::string note;
};

struct CalibrationSpec {
  std::string engine = "fifo";
  std::string costs = "roofline";
  std::vector<CalibrationFigure> figures;
};

// calibration.yaml, `emplace.calibration` version 1:
//   engine, costs; figures: a list of {figure, model, set, cluster, device | agent and gpus, published_s | published:
//   oom, use: fit | held_out | excluded, note}
// Throws InputError whose place starts with `file`.
CalibrationSpec ReadCalibration(std::istream& in, const std::string& file);

struct CalibrationRow {
  const CalibrationFigure* figure = nullptr;
  std::string device_kind;  // kind of `device`
  double seconds = 0;       // simulated
  bool fits = false;
  double peak_bytes = 0;      // largest peak of a device; 0 if an agent found nothing that fits
  double capacity_bytes = 0;  // capacity of a device
  // Simulated / published; none if the paper ran out of memory.
  std::optional<double> ratio;
};

struct CalibrationResult {
  std::vector<CalibrationRow> rows;  // in the order of the figures, which must outlive them
  // For each device kind with figures to fit, the factor on all op times that makes the simulated times equal to the
  // published ones. It is the geometric mean for several figures. Gaps between ops are not scaled.
  std::map<std::string, double> fitted_scales;
  std::optional<double> median_held_out_error;  // median of |ratio - 1| over held-out times
  std::size_t oom_cells = 0;
  std::size_t oom_agreed = 0;
};

// Builds, places and simulates every figure's graph. Op times are those of the device catalogue, including its
// time_scale. Throws InputError, its place the figure, on an unknown model, option, cluster, device or agent.
CalibrationResult RunCalibration(const CalibrationSpec& spec);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_VALIDATION_CALIBRATION_H_
