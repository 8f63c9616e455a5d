#ifndef EMPLACE_EXPERIMENTS_VALIDATION_DEVICE_FIT_H_
#define EMPLACE_EXPERIMENTS_VALIDATION_DEVICE_FIT_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/validation/measured_shapes.h"
#include "sim/cost/curves.h"
#include "sim/device_catalog.h"

namespace emplace::experiments {

// The fewest distinct shapes that a curve is fitted to.
inline constexpr std::size_t kFewestShapes = 8;

// One curve and the rows for it. Errors are absolute ones in percent, of shapes that the fit had not seen: before is
// what the curve that the fit began with says.
struct FittedCurve {
  std::string_view form = {};
  std::string precision = {};
  std::string began_with = {};  // the kind whose curve that was
  std::size_t rows = 0;
  std::size_t shapes = 0;        // distinct ones; fewer than kFewestShapes: it is not fitted
  std::string_view fitted = {};  // "parameters" or "parameters, tables"; "": what it began with was no worse
  std::size_t held_out = 0;      // shapes
  double median_before = 0;
  double median_after = 0;
  double p95_before = 0;
  double p95_after = 0;
  bool exceeds_sheet = false;  // CurveFit::exceeds_sheet

  bool is_refused() const { return shapes < kFewestShapes; }
};

struct DeviceFit {
  DeviceCurves curves;
  std::vector<FittedCurve> fitted;         // the forms and precisions of the rows
  std::vector<std::string_view> not_seen;  // forms without a row
  std::size_t without_rate = 0;            // rows in a precision for which the device has no rate
  bool is_empty() const;                   // no curve has enough shapes
};

// The curves of a device, fitted to measured shapes. `base` has the kind's own curves, if there are any, or the name of
// the kind that it is like; what has no rows, or fewer than kFewestShapes shapes, stays. Parameters alone, or
// parameters and tables, are fitted, by what is better on shapes that were left out. `source` is written beside each
// fitted curve.
DeviceFit FitDevice(const DeviceKind& device, const DeviceCurves& base, const MeasuredShapes& measured,
                    const std::string& source);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_VALIDATION_DEVICE_FIT_H_
