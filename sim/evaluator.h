#ifndef EMPLACE_SIM_EVALUATOR_H_
#define EMPLACE_SIM_EVALUATOR_H_

#include <vector>

#include "sim/base/units.h"
#include "sim/placement.h"

namespace emplace {

// The answer to "how long does a step take with this placement?". Schedulers call the step time makespan.
struct StepResult {
  double step_time_micros = 0;
  // Not over any device's capacity. True as long as peak memory was not asked for.
  bool fits_memory = true;
  std::vector<Bytes> peak_memory;    // [num_devices]; empty unless asked for
  std::vector<double> start_micros;  // [num_ops], by OpId; empty unless asked for
  bool operator==(const StepResult&) const = default;
};

// What beside the step time is asked for.
struct EvaluationNeeds {
  bool start_times = false;
  bool peak_memory = false;
};

// Whoever answers it: the simulator, or real hardware.
class Evaluator {
 public:
  virtual ~Evaluator() = default;
  // `placement` is of every op of the op-level graph, and can run (CheckPlacement). Safe to call from several threads.
  virtual StepResult Run(const Placement& placement) const = 0;
};

}  // namespace emplace

#endif  // EMPLACE_SIM_EVALUATOR_H_
