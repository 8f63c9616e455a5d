#ifndef EMPLACE_SIM_SCHEDULE_SCHEDULE_MESSAGES_H_
#define EMPLACE_SIM_SCHEDULE_SCHEDULE_MESSAGES_H_

#include <cstddef>
#include <span>
#include <vector>

#include "sim/base/units.h"
#include "sim/schedule/schedule.h"
#include "sim/schedule/schedule_simulator.h"

namespace emplace {

// When the messages of a step are sent, and when they arrive.
struct ScheduleMessages {
  struct Sent {
    Duration start{};
    Duration arrival{};
  };
  std::size_t micro_batches = 0;
  std::vector<Sent> sent = {};        // indexed by message and micro-batch; of one that is sent once, the first counts
  std::vector<Sent> final_sent = {};  // indexed like the final messages of the model

  const Sent& Of(std::size_t message, std::size_t micro_batch) const {
    return sent[message * micro_batches + micro_batch];
  }
};
// Simulates the step as SimulateSchedule does, whose results are without messages: searches do not need them.
ScheduleMessages SimulateMessages(const PipelineSchedule& of_pipeline, const PipelineModel& model);

// A full backward has two parts; other actions are one.
std::span<const ActionKind> PartsOf(ActionKind kind);

// An action of OnRanksOf(model, schedule) with the number that its stage has in the schedule itself, for people.
PipelineAction InSchedule(const PipelineModel& model, const PipelineAction& action);

}  // namespace emplace

#endif  // EMPLACE_SIM_SCHEDULE_SCHEDULE_MESSAGES_H_
