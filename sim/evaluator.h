#ifndef EMPLACE_SIM_EVALUATOR_H_
#define EMPLACE_SIM_EVALUATOR_H_

#include <memory>
#include <vector>

#include "sim/base/units.h"
#include "sim/placement.h"

namespace emplace {

// The answer to "how long does a step take with this placement?". Schedulers call the step time makespan.
struct StepResult {
  double step_time_micros = 0;
  // False: the placement cannot run at all, as no pipeline for a schedule. It then does not fit either, and the step
  // time is longer than any that can.
  bool runs = true;
  // Not over any device's capacity. True as long as peak memory was not asked for.
  bool fits_memory = true;
  std::vector<Bytes> peak_memory;    // [num_devices]; empty unless asked for
  std::vector<double> start_micros;  // [num_ops], by OpId; empty unless asked for
  bool operator==(const StepResult&) const = default;
};

// The requested content of a result besides the step time.
struct EvaluationNeeds {
  bool start_times = false;
  bool peak_memory = false;
};

// The interface of the simulator and of real hardware.
class Evaluator {
 public:
  virtual ~Evaluator() = default;
  // `placement` is of every op of the op-level graph, and can run (CheckPlacement). Safe to call from several threads.
  virtual StepResult Run(const Placement& placement) const = 0;

  // Scratch memory of one thread. An evaluator that computes in memory of its own derives from it.
  class Workspace {
   public:
    virtual ~Workspace() = default;
  };
  virtual std::unique_ptr<Workspace> MakeWorkspace() const { return std::make_unique<Workspace>(); }
  // The same as Run. *result keeps its storage from run to run, if the evaluator can make use of it.
  // Requires: `workspace` is of this evaluator and used by one thread at a time.
  virtual void RunWith(Workspace& workspace, const Placement& placement, StepResult* result) const;
};

inline void Evaluator::RunWith(Workspace&, const Placement& placement, StepResult* result) const {
  *result = Run(placement);
}

}  // namespace emplace

#endif  // EMPLACE_SIM_EVALUATOR_H_
