#ifndef EMPLACE_SIM_FORMATS_RESULT_JSON_H_
#define EMPLACE_SIM_FORMATS_RESULT_JSON_H_

#include <cstddef>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/units.h"
#include "sim/bounds.h"
#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/evaluator.h"
#include "sim/graph.h"
#include "sim/placement.h"
#include "sim/schedule/placed_pipeline.h"
#include "sim/schedule/schedule.h"
#include "sim/schedule/schedule_simulator.h"

namespace emplace {

// One simulated step and what there is to know beside it: result.json, `emplace.result` version 1.
struct StepReport {
  struct DeviceRow {
    std::string name;
    std::size_t ops = 0;
    double busy_micros = 0;  // sum of op times, gaps not counted
    Bytes sent;
    Bytes peak;
    std::optional<Bytes> memory;         // capacity; none: no limit
    std::size_t micro_batches_held = 0;  // (stage, micro-batch) pairs, at most; with a schedule
    double crossing_micros =
        0;  // time of values that are received or sent, per micro-batch; only for loads of a pipeline
  };
  // The results of a schedule of micro-batches: docs/model.md, S14 to S19, and S26.
  struct ScheduleRow {
    std::string name;
    std::size_t micro_batches = 0;
    double throughput_steps_per_s = 0;  // 0 where a step takes no time
    double bubble_percent = 0;
    double exposed_communication_micros = 0;
    double max_load_micros = 0;
    // The steady state, with an endless supply of micro-batches: S26.
    struct SteadyRow {
      double micros_per_micro_batch = 0;
      std::string bottleneck;
    };
    std::optional<SteadyRow> steady_state = {};
  };
  std::string graph;
  std::string cluster;
  std::string engine;
  std::string costs;              // source of op times: "roofline", "profile p.json", ..; "" if unknown
  std::string costs_detail = {};  // what its name does not say, in a line
  double step_time_micros = 0;
  bool fits_memory = true;
  double lower_bound_micros = 0;  // the best that was proved for every placement on this cluster
  std::string lower_bound_method = std::string(kCriticalPathBound);  // argument of the bound
  double critical_path_micros = 0;
  double busiest_device_micros = 0;  // largest busy time in this placement
  std::vector<DeviceRow> devices;    // every device of the cluster
  std::size_t ops = 0;
  std::size_t tensors_sent = 0;  // (tensor, destination) pairs
  std::size_t fallback_ops = 0;  // ops whose time came from the named fallback cost model
  std::optional<ScheduleRow> schedule = {};
  // The same objective with everything on one accelerator, where that takes least and fits; none: not computed, or
  // it fits nowhere.
  std::optional<double> one_device_micros = {};
};

// `result` is what `engine` said of `placement`, peak memory included. The bound is the simple one of sim/bounds.h.
StepReport MakeStepReport(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                          const Placement& placement, const std::string& engine, const StepResult& result);

// The report of `result` for a step of many micro-batches. `name` is that of the schedule, for display.
StepReport MakeScheduleReport(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                              const Placement& placement, const std::string& name, const PipelineSchedule& schedule,
                              const PlacedPipeline& pipeline, const ScheduleResult& result);

void WriteResult(std::ostream& out, const StepReport& report);

}  // namespace emplace

#endif  // EMPLACE_SIM_FORMATS_RESULT_JSON_H_
