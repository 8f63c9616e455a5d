#ifndef EMPLACE_AGENTS_RL_DOPPLER_PARTIAL_SCHEDULE_H_
#define EMPLACE_AGENTS_RL_DOPPLER_PARTIAL_SCHEDULE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "agents/environment.h"
#include "agents/nn/kernel.h"
#include "agents/nn/node_lists.h"
#include "sim/base/units.h"
#include "sim/graph.h"
#include "sim/placement.h"

namespace emplace::agents {

// Numbers that describe a group, and a device as a place for a group: see AssignmentProblem and PartialSchedule.
inline constexpr std::size_t kAssignmentNodeFeatures = 7;
inline constexpr std::size_t kAssignmentDeviceFeatures = 11;

inline constexpr std::uint32_t kNoGroup = std::numeric_limits<std::uint32_t>::max();

// A graph of groups as DOPPLER sees it, the same in every episode. The time of a group is its mean over `devices`, and
// that of a transfer the mean over their links.
struct AssignmentProblem {
  // With `use_cpus` a group may go to every device where it is allowed, else to accelerators only (SearchDevices()).
  AssignmentProblem(const Observation& seen, bool use_cpus);

  std::size_t num_groups() const { return devices.size(); }

  // A tensor or a control edge that a group needs; distinct.
  struct Input {
    std::uint32_t producer = 0;
    std::optional<TensorId> tensor;  // none: a control edge
  };

  std::vector<std::vector<DeviceId>> devices;  // [num_groups]: where the group may go
  std::vector<std::vector<Input>> inputs;      // [num_groups]
  NodeLists producers;                         // [num_groups], distinct
  NodeLists consumers;                         // [num_groups], distinct
  NodeLists neighbours;                        // [num_groups]: both
  std::vector<double> to_exit;          // [num_groups]: longest path from the group to an exit, in us, itself included
  std::vector<double> from_entry;       // [num_groups]: longest path from an entry to the group
  std::vector<std::uint32_t> next;      // [num_groups]: the next group of the path to an exit, or kNoGroup
  std::vector<std::uint32_t> previous;  // [num_groups]: the one before it on the path from an entry
  std::optional<Placement> start;       // where a search begins; none: not set. To be set by its owner
  double mean_micros = 0;               // of the groups

  // [num_groups, kAssignmentNodeFeatures], each column with mean 0 and deviation 1 over the groups:
  //   0 time   1, 2 transfer times of its inputs and outputs   3 to_exit   4 from_entry
  //   5 rank by to_exit, equal for equal paths   6 bytes that it holds
  Matrix features;
};

// The state of an episode, in which groups are assigned to devices one after another: an estimate of when they run.
//   A group starts when its inputs are on its device and all groups assigned to it before have ended. Nothing is
//   inserted into a gap.
//   A tensor is sent to a device once, by the link of the two devices, on the sender's one outgoing channel or that of
//   the pair. Several inputs of a group from one sender queue by (end of producer, tensor).
//   A group holds its persistent bytes, and its outputs until its last consumer is assigned. Copies do not count.
class PartialSchedule {
 public:
  // Keeps references to both.
  PartialSchedule(const Observation& seen, const AssignmentProblem& problem);

  // The groups to select from: unassigned, and all their producers are assigned. Empty at the end.
  const std::vector<std::uint32_t>& ready() const { return ready_; }
  // The ready groups with the longest path to an exit, as positions in ready().
  std::vector<std::uint32_t> Critical() const;

  // Determines the devices that a ready group may go to: those with room for its persistent, temporary and output bytes
  // beside what assigned groups hold, or all of its devices if none has.
  void Consider(std::uint32_t group);
  // About the group considered last, [num_devices]:
  std::span<const std::uint8_t> allowed() const { return allowed_; }
  std::span<const std::uint8_t> earliest() const { return earliest_; }  // allowed devices where it ends first
  // [num_devices, kAssignmentDeviceFeatures]; 0 where it is not allowed. All but the last two have mean 0 and deviation
  // 1 over the allowed devices:
  //   0 time of the groups assigned to the device   1 that of the group's producers there
  //   2, 3 earliest start and latest end of those producers   4 start of the group there   5 its time   6 its end
  //   7 time of the transfers to the device that it needs   8 bytes held on the device over its capacity
  //   9 ln(1 + delay of its end behind the earliest, in mean times of a group)   10 column 8 as it is, at most 2
  const Matrix& features() const { return features_; }
  // Requires: `group` was considered last, `device` is one of its allowed.
  void Assign(std::uint32_t group, std::size_t device);

  const Placement& placement() const { return placement_; }
  Duration start(std::uint32_t group) const { return start_[group]; }
  Duration end(std::uint32_t group) const { return end_[group]; }

 private:
  // The time at which the last input of the group considered last is on the device. With `send`, sends the missing
  // inputs. Adds the time of their transfers to *sending.
  Duration Arrival(std::size_t device, bool send, Duration* sending);
  std::size_t Channel(std::size_t from, std::size_t to) const;
  void Describe(std::uint32_t group);

  const Observation& seen_;
  const AssignmentProblem& problem_;
  std::size_t num_devices_;
  Placement placement_;
  std::vector<std::uint32_t> ready_;
  std::vector<std::uint32_t> pending_;       // [num_groups]: unassigned producers
  std::vector<std::uint32_t> readers_left_;  // [num_groups]: unassigned consumers
  std::vector<Duration> start_;              // [num_groups]
  std::vector<Duration> end_;                // [num_groups]
  std::vector<Duration> sent_;               // [num_tensors, num_devices]: arrival of the copy; negative: not sent
  std::vector<Duration> channels_;           // time from which each is free
  std::vector<Duration> free_;               // [num_devices]: end of the last group, and its op gap
  std::vector<Duration> load_;               // [num_devices]: time of its groups
  std::vector<std::int64_t> held_;           // [num_devices]: bytes that its groups hold
  // About the group considered last:
  std::vector<AssignmentProblem::Input> inputs_;
  std::vector<Duration> scratch_;       // channels as after one Arrival()
  std::vector<Duration> starts_;        // [num_devices]
  std::vector<Duration> ends_;          // [num_devices]
  std::vector<Duration> sending_;       // [num_devices]
  std::vector<std::uint8_t> allowed_;   // [num_devices]
  std::vector<std::uint8_t> earliest_;  // [num_devices]
  Matrix features_;
  std::array<std::vector<double>, kAssignmentDeviceFeatures - 2> columns_;  // [num_devices] each: before scaling
  std::vector<std::uint8_t> has_producer_;                                  // [num_devices]
};

// The critical-path policy, the teacher of stage I: of the ready groups, the one with the longest path to an exit
// (ties: the smallest) goes to the device where it ends first (ties: the smallest). On equal devices that is the device
// that is available first.
Placement PlaceByCriticalPath(const Observation& seen, const AssignmentProblem& problem);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_RL_DOPPLER_PARTIAL_SCHEDULE_H_
