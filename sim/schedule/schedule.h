#ifndef EMPLACE_SIM_SCHEDULE_SCHEDULE_H_
#define EMPLACE_SIM_SCHEDULE_SCHEDULE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace emplace {

// An action of a rank for one micro-batch in one stage. A full backward is both parts, one after the other.
enum class ActionKind : std::uint8_t { kForward, kBackward, kBackwardInput, kBackwardWeight };
// As in files: F, B, I, W.
char Letter(ActionKind kind);

struct PipelineAction {
  std::uint32_t stage = 0;
  ActionKind kind = ActionKind::kForward;
  std::uint32_t micro_batch = 0;
  bool operator==(const PipelineAction&) const = default;
};
// As in files: "0F3".
std::string Text(const PipelineAction& action);

// One training step of a pipeline (docs/model.md, S10): what each rank does, in its order. A rank is a device of the
// pipeline, and a stage belongs to one rank. Micro-batches pass the stages 0, 1, .. forward and in reverse order
// backward.
struct PipelineSchedule {
  std::size_t num_stages = 0;
  std::size_t micro_batches = 0;
  std::vector<std::vector<PipelineAction>> ranks;
  bool operator==(const PipelineSchedule&) const = default;
};

// The actions that one schedule may have at most.
inline constexpr std::size_t kMaxActions = 4'000'000;
// The ranks of a file: as many as devices of a cluster.
inline constexpr std::size_t kMaxRanks = 1024;

// A row of `emplace list schedules` (docs/model.md, S11).
struct ScheduleEntry {
  // Which rank stage s belongs to, of p ranks: s; s mod p; s or 2p - 1 - s.
  enum class Layout : std::uint8_t { kOneStage, kLooped, kVShaped };
  std::string_view name;
  std::string_view summary;
  std::string_view source;
  Layout layout;
  PipelineSchedule (*make)(std::size_t ranks, std::size_t chunks, std::size_t micro_batches);
};
std::span<const ScheduleEntry> AllSchedules();

// A schedule as users name it: "gpipe", "interleaved:2".
struct ScheduleName {
  const ScheduleEntry* entry = nullptr;
  std::size_t chunks = 1;  // stages of each rank
};
// Throws InputError(place) on an unknown name, which lists the known ones, and on wrong chunks.
ScheduleName ParseScheduleName(std::string_view text, const std::string& place);

// The rank of each stage. Requires: ranks > 0.
std::vector<std::size_t> RankOfStage(const ScheduleName& name, std::size_t ranks);
// Throws InputError("") where the schedule does not exist for this many micro-batches, or has over kMaxActions actions.
// Requires: ranks > 0, micro_batches > 0.
PipelineSchedule MakeSchedule(const ScheduleName& name, std::size_t ranks, std::size_t micro_batches);

// The rank of each stage that the schedule's own lists give. Requires: CheckSchedule has passed.
std::vector<std::size_t> RankOfStage(const PipelineSchedule& schedule);

// Throws InputError unless each stage is of one rank, each micro-batch runs forward and backward once in each stage
// (the backward as a whole, or both parts), and all actions can run: none waits, over others, for itself. Errors name
// the action's place in a file, "line 2, cell 7"; `cells` are the cells of actions where they do not follow one
// another.
void CheckSchedule(const PipelineSchedule& schedule, std::span<const std::vector<std::size_t>> cells = {});

}  // namespace emplace

#endif  // EMPLACE_SIM_SCHEDULE_SCHEDULE_H_
