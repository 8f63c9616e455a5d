#ifndef EMPLACE_SIM_SCHEDULE_SCHEDULE_EXPLANATION_H_
#define EMPLACE_SIM_SCHEDULE_SCHEDULE_EXPLANATION_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "sim/base/units.h"
#include "sim/schedule/schedule.h"
#include "sim/schedule/schedule_simulator.h"

namespace emplace {

// The kind of a part of a pipelined step's critical chain.
enum class ScheduleChainKind : std::uint8_t {
  kForward,
  kBackward,  // the whole of it
  kBackwardInput,
  kBackwardWeight,
  kUpdate,      // a final op
  kCollective,  // a collective of final ops, which reduces gradients
  kTransfer,    // a message on its way
  kGap,         // a channel after a message
};
inline constexpr std::size_t kNumScheduleChainKinds = 8;
// "forward", "backward", "backward_input", "backward_weight", "update", "collective", "transfer", "gap"
std::string_view Name(ScheduleChainKind kind);

// An interval of the critical chain.
struct ScheduleChainPart {
  ScheduleChainKind kind = ScheduleChainKind::kForward;
  Duration begin{};
  Duration end{};
  std::size_t rank = 0;                       // rank that runs, or the sender
  std::optional<std::size_t> to = {};         // the receiver of a message
  std::optional<PipelineAction> action = {};  // action that runs, or whose output is sent
  std::optional<std::size_t> final_op = {};   // likewise: a position in the model
  std::optional<std::size_t> micro_batch =
      {};  // micro-batch of a message that is sent for each of them from the start of the step on
  Duration length() const { return end - begin; }
};

// How a rank spends the step. The fields but the last add up to the step time exactly.
struct RankUse {
  Duration busy{};                     // runs actions and final ops
  Duration waiting_for_ranks{};        // the next input is being computed elsewhere, or waits for its turn there
  Duration waiting_for_transfers{};    // the next input has been computed, and is queued or being sent
  Duration waiting_for_team{};         // it could go on; another device of its team cannot
  Duration waiting_for_collectives{};  // waits for collectives of final ops
  Duration sending{};                  // sends by itself, without a copy engine
  Duration idle{};                     // nothing is left
  Duration on_chain{};                 // time of its actions on the critical chain
};

// Where the time of a pipelined step goes.
struct ScheduleExplanation {
  Duration step_time{};
  // From 0 to step_time without a hole. If a part were longer, the step would be too. Parts of no length are left out.
  std::vector<ScheduleChainPart> chain = {};
  std::array<Duration, kNumScheduleChainKinds> totals{};  // indexed by ScheduleChainKind
  // By how much the end of an action can be later without a later end of the step, if ranks and channels keep their
  // order. As ScheduleResult::starts and final_starts.
  std::vector<std::vector<Duration>> slack = {};
  std::vector<Duration> final_slack = {};
  std::vector<RankUse> ranks = {};  // indexed like the ranks of the model
};

// Explains what SimulateSchedule answered for the same two. The rules of the step (docs/model.md, S12 to S18) join
// actions, messages and final ops by precedence; the chain is followed back from the end of the step, and where a
// message and the rank become free together, it follows the message. Linear in actions and messages.
ScheduleExplanation ExplainSchedule(const PipelineSchedule& of_pipeline, const PipelineModel& model,
                                    const ScheduleResult& result);

}  // namespace emplace

#endif  // EMPLACE_SIM_SCHEDULE_SCHEDULE_EXPLANATION_H_
