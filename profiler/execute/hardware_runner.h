#ifndef EMPLACE_PROFILER_EXECUTE_HARDWARE_RUNNER_H_
#define EMPLACE_PROFILER_EXECUTE_HARDWARE_RUNNER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/hardware.h"
#include "profiler/measure/clock_watch.h"
#include "profiler/measure/op_sampler.h"
#include "sim/cluster.h"
#include "sim/evaluator.h"
#include "sim/graph.h"
#include "sim/timeline.h"

namespace emplace::profiler {

struct HardwareOptions {
  enum class Statistic { kMedian, kMean };
  // Steps that are run and not counted, then steps that are, and what the step time is of them.
  // The default is that of Mirhoseini et al. 2018 as the hierarchical planner's paper states it (median of 5 after 5);
  // Gao et al. 2018 (Post) take the mean of 10 after 1.
  std::size_t warmups = 5;
  std::size_t steps = 5;
  Statistic statistic = Statistic::kMedian;
  double patience_seconds = 0;  // spent on steps that do not count because others disturbed a device (disturbance.h)
  std::optional<double> known_probe_micros = {};  // the fastest probe of a core that is known
  bool interleave = false;                        // between steps the ops are run by themselves too (op_sampler.h)
  std::uint64_t seed = 1;                         // seed for the contents of inputs and weights
};

// The measurements of one placement. Times in µs.
struct HardwareStep {
  StepResult result;                // starts: of the step in `timeline`
  std::vector<double> step_micros;  // the counted steps, in order; those least disturbed of all that were run
  std::size_t disturbed = 0;        // counted steps during which other programs disturbed a device
  Timeline timeline;                // the counted step closest to the step time; with a GPU, one more step (below)
  // With `interleave`: what ops take by themselves, alone and beside a busy device: medians of samples right after the
  // counted steps.
  OpSampler::Times op_times;
  ClockWatch clocks;    // clocks of the devices after the counted steps
  std::string failure;  // why it does not fit; "" if it does
};

// Runs placed graphs for real: one thread per device takes runnable ops, first in, first out (of those that become
// runnable at once, the smaller id first), one more per device copies what leaves it, tensors are freed after their
// last use. The same interface as the simulator's, and the same meaning of every field: step time is the end of the
// last op, peak memory counts tensors, copies, temporaries and persistent bytes as the graph states them.
//
// For a device that runs behind the host, as a GPU does, one more step, which does not count, records when each op
// began and ended: the timeline is that step's. (Where LibTorch is older than 2.5, it has the times at which ops were
// given to such a device.) What a control edge holds back on another device starts when the GPU is done, not when it
// was launched.
//
// A placement that runs out of a device's memory, be it the cluster's number or the real one, does not fit; that is a
// result. Other failures are errors.
class HardwareRunner : public Evaluator {
 public:
  // `devices`: for each device of the cluster its hardware, or null where nothing will be placed. They and the graph
  // must outlive the runner. Throws InputError(op name) where an op has a tensor without dtype and shape, and where ops
  // are to be interleaved on a device that runs behind the host: the clock around an op is not its time there.
  HardwareRunner(const Graph& graph, const Cluster& cluster, std::vector<HardwareDevice*> devices,
                 const HardwareOptions& options = {});
  ~HardwareRunner() override;

  // Requires: colocated ops are together, nothing is placed on a null device. Throws InputError(op name) where an op
  // has no implementation. One placement at a time: calls from several threads wait for each other.
  HardwareStep Measure(const Placement& placement) const;
  // The same, never interleaved.
  HardwareStep MeasureSteps(const Placement& placement) const;
  StepResult Run(const Placement& placement) const override;

 private:
  class Machine;
  std::unique_ptr<Machine> machine_;
};

}  // namespace emplace::profiler

#endif  // EMPLACE_PROFILER_EXECUTE_HARDWARE_RUNNER_H_
