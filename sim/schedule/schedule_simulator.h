#ifndef EMPLACE_SIM_SCHEDULE_SCHEDULE_SIMULATOR_H_
#define EMPLACE_SIM_SCHEDULE_SCHEDULE_SIMULATOR_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/base/units.h"
#include "sim/schedule/schedule.h"

namespace emplace {

// A stage's times and bytes for one micro-batch. A full backward takes both parts.
struct PipelineStage {
  Duration forward{};
  Duration backward_input{};
  Duration backward_weight{};
  // How much of each, in that order, is there only because collectives take time.
  std::array<Duration, 3> communication{};
  // The most bytes that an action needs while it runs, beside what messages hold; by ActionKind.
  std::array<Bytes, 4> working{};
};

// The duration of the action.
Duration ActionTime(const PipelineStage& stage, ActionKind kind);

// A part of a stage's work: kForward, kBackwardInput or kBackwardWeight. A full backward has both parts.
struct StagePart {
  std::size_t stage = 0;
  ActionKind kind = ActionKind::kForward;
  auto operator<=>(const StagePart&) const = default;
};

// How tensors go from one rank to another: one after the other on one channel, which they occupy.
struct PipelineRoute {
  std::size_t from = 0;  // a rank
  std::size_t to = 0;    // if equal to `from`, nothing is sent, and the message describes how long a tensor is kept
  std::optional<std::size_t> channel = {};  // all routes of a channel have one sender; none: occupies nothing
  Duration transfer{};                      // time from the start to the arrival of the last tensor
  Duration gap{};                           // the channel is idle after it
  Bytes size = {};          // held on the receiving rank from the start of the transfer until the last reader's end
  Bytes buffer = {};        // held on the sending rank until the arrival
  std::size_t tensors = 0;  // number of tensors sent
};

// Sent for each micro-batch at the end of a part of a stage, or from the start of the step on.
struct PipelineMessage {
  PipelineRoute route;
  std::optional<StagePart> after = {};  // none: sent from time 0 on
  bool once = false;                    // only with `after` none: sent once, not for each micro-batch
  bool until_final = false;             // the last one is held until the receiver's final ops are done
  std::vector<StagePart> readers = {};  // wait for it, all on the receiving rank
};

// Runs once, when its rank has done its actions: weight updates.
struct FinalOp {
  std::size_t rank = 0;
  Duration time{};
  std::vector<std::size_t> waits = {};         // positions of final messages
  std::vector<std::size_t> reads = {};         // positions of final ops of its rank, where the order does not say so
  std::optional<std::size_t> collective = {};  // it is a member, and runs beside the ops of its rank
};
// Members of a group reduce gradients together: they follow one another in final_ops.
struct FinalCollective {
  std::size_t num_members = 0;
  Duration time{};
};
// Sent once: when `after` has run, or else when the sender has done its actions.
struct FinalMessage {
  PipelineRoute route;
  std::optional<std::size_t> after = {};  // a position of a final op
};

// Stages on ranks. Ranks beyond those of the schedule have no stages, but may send, and run final ops.
struct PipelineModel {
  struct Rank {
    bool copy_engine = true;  // false: no action starts while the rank's channels are busy
    Bytes held = {};          // the whole step: weights, optimiser state
    Bytes gradients =
        {};  // held from the start of the first backward until the rank's first final op, or until its end
    Bytes final_working = {};  // while final ops run, gradients included
  };
  std::vector<Rank> ranks = {};
  std::vector<std::size_t> rank_of_stage = {};
  std::vector<PipelineStage> stages = {};
  std::vector<PipelineMessage> messages = {};
  std::vector<FinalOp> final_ops = {};  // each after those that it waits for
  std::vector<FinalCollective> final_collectives = {};
  std::vector<FinalMessage> final_messages = {};
  std::size_t num_channels = 0;
  // Where devices form teams and replicas (docs/model.md, S21): which list of the schedule each rank runs, which of its
  // stages each stage is, and the ranks that act together. Empty: the schedule's own, each rank by itself.
  std::vector<std::size_t> schedule_rank = {};
  std::vector<std::size_t> schedule_stage = {};
  std::vector<std::vector<std::size_t>> teams = {};
};

// The schedule with a list for each rank of the model.
PipelineSchedule OnRanksOf(const PipelineModel& model, const PipelineSchedule& schedule);

// Stages with these times on the ranks of a schedule: stage s sends forward to s + 1 and backward to s - 1, on a
// channel of its own for each direction, where that is another rank.
struct ChainTransfers {
  Duration forward{};
  Duration backward{};
};
PipelineModel ChainModel(std::span<const std::size_t> rank_of_stage, std::span<const PipelineStage> stages,
                         ChainTransfers transfers = {});

// One step: docs/model.md, S12 to S18.
struct ScheduleResult {
  struct RankResult {
    Duration busy{};                     // actions and final ops
    Duration first_start{};              // start of the first action
    Duration end{};                      // end of the last action
    std::size_t micro_batches_held = 0;  // (stage, micro-batch) pairs that have begun forward and not ended backward
    Bytes peak;
  };
  Duration step_time{};
  double bubble_percent = 0;                       // share of the time for which ranks of the schedule are idle
  Duration exposed_communication{};                // time by which the step would be shorter without transfers
  Duration max_load{};                             // largest load of a rank or channel per micro-batch
  std::vector<RankResult> ranks = {};              // indexed like the ranks of the model
  std::vector<std::vector<Duration>> starts = {};  // starts of actions, indexed as in OnRanksOf(model, schedule)
  std::vector<Duration> final_starts = {};         // indexed like the final ops of the model
};
// Throws InputError("") where times may add up to more than 4e15 us.
// Requires: CheckSchedule(schedule) passes; RankOfStage(OnRanksOf(model, schedule)) is the model's rank_of_stage. A
// message after a
// forward is read by forwards of no earlier stage, and by backwards; one after an input's part by backwards of no later
// stage; one after a weights' part by that of the same stage.
ScheduleResult SimulateSchedule(const PipelineSchedule& of_pipeline, const PipelineModel& model);

}  // namespace emplace

#endif  // EMPLACE_SIM_SCHEDULE_SCHEDULE_SIMULATOR_H_
