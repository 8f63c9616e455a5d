#ifndef EMPLACE_SIM_SCHEDULE_STEADY_STATE_H_
#define EMPLACE_SIM_SCHEDULE_STEADY_STATE_H_

#include <cstddef>
#include <string>
#include <vector>

#include "sim/base/units.h"
#include "sim/cluster.h"
#include "sim/schedule/schedule.h"
#include "sim/schedule/schedule_simulator.h"

namespace emplace {

// The steady state of a schedule with an endless supply of micro-batches: docs/model.md, S26. All lists repeat
// themselves, and so do all times. What each repetition takes is the largest ratio of time to micro-batches of all
// circles of waiting: Baccelli, Cohen, Olsder and Quadrat 1992, Synchronization and Linearity, theorem 3.28.
struct SteadyState {
  // An action, or a message, that waits for the one before it.
  struct Step {
    bool is_message = false;
    std::size_t from = 0;  // a rank: of the action, or the sender
    std::size_t to = 0;    // a rank: of the action, or the receiver
  };
  // The circle that takes longest for its micro-batches, and its steps in order.
  struct Circle {
    Duration time{};
    std::size_t micro_batches = 1;
    std::vector<Step> steps = {};
  };
  // One for each phase of the schedule that is over before the next one begins: gpipe has two, the others one.
  std::vector<Circle> circles;

  // The time by which each further micro-batch makes a step longer.
  double MicrosPerMicroBatch() const;
};

// Throws InputError("") where there are so many ranks that a schedule has no steady part within kMaxActions actions.
// Requires: RankOfStage(name, ranks) is that of the model's pipelines.
SteadyState FindSteadyState(const ScheduleName& name, std::size_t ranks, const PipelineModel& model);

// A description of the bottleneck. `devices` are those of the model's ranks.
std::string BottleneckText(const SteadyState& steady, const Cluster& cluster, const std::vector<DeviceId>& devices);

}  // namespace emplace

#endif  // EMPLACE_SIM_SCHEDULE_STEADY_STATE_H_
