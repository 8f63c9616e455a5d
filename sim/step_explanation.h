#ifndef EMPLACE_SIM_STEP_EXPLANATION_H_
#define EMPLACE_SIM_STEP_EXPLANATION_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "sim/base/units.h"
#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/graph.h"
#include "sim/placement.h"
#include "sim/simulator.h"
#include "sim/timeline.h"

namespace emplace {

// The kind of a part of the critical chain.
enum class ChainKind : std::uint8_t {
  kCompute,       // an op that what follows needs
  kTransfer,      // a tensor that what follows needs; also the latency of a control input between devices
  kDeviceQueue,   // an op or, without a copy engine, a transfer that holds a device; an op that is ready waits for it
  kChannelQueue,  // a transfer that holds a channel; another tensor that exists already waits for it
  kGap,           // a device after an op, or a channel after a transfer
  kIssue,         // an issue lane issues the op, or another one first (docs/model.md, F16)
  kLaunch,        // time from the end of the issue to the start (F17)
};
inline constexpr std::size_t kNumChainKinds = 7;
// "compute", "transfer", "device_queue", "channel_queue", "gap", "issue", "launch"
std::string_view Name(ChainKind kind);

// A run of an op, or a transfer of one of its tensors.
struct ChainItem {
  OpId op{};                            // the op that runs, or the producer of the tensor
  bool is_transfer = false;             // true also for the latency of a control input
  std::optional<TensorId> tensor = {};  // the tensor of a transfer; none: a control input, which moves no tensor
  DeviceId device{};                    // the device that runs the op, or the sender
  DeviceId to{};                        // the destination of a transfer, else equal to `device`
  bool operator==(const ChainItem&) const = default;
};

// An interval of the critical chain.
struct ChainPart {
  ChainKind kind = ChainKind::kCompute;
  Duration begin{};
  Duration end{};
  ChainItem item = {};                   // the op or transfer that takes the time; for a gap, the one before it
  std::optional<ChainItem> waiter = {};  // for a queue: the op or the tensor that waits
  Duration length() const { return end - begin; }
};

// How a device spends the step. The fields add up to the step time exactly.
struct DeviceUse {
  Duration busy{};                   // runs ops
  Duration gap{};                    // idle after an op, by the op gap
  Duration sending{};                // sends by itself, without a copy engine, and may start no op
  Duration waiting_for_ops{};        // a later op's last input is being computed, on another device
  Duration waiting_for_transfers{};  // it exists, and is queued or on its way
  Duration waiting_for_issue{};      // it is there, and the op is not issued or launched yet
  Duration idle{};                   // no op is left
  Duration on_chain{};               // time of its ops and queues on the critical chain
};

// Where the time of a simulated step goes. All times are whole ns from the start of the step; those of an engine that
// does not round are rounded here.
struct StepExplanation {
  Duration step_time{};
  // From 0 to step_time without a hole: the lengths add up to step_time exactly. Each part ends when the next begins,
  // and if a part were longer, the step would be too. Parts of no length are left out.
  std::vector<ChainPart> chain;
  std::array<Duration, kNumChainKinds> totals{};  // indexed by ChainKind
  // [num_ops], by OpId: by how much the end of the op can be later without a later end of the step, if all devices,
  // channels and issue lanes keep their order.
  std::vector<Duration> slack;
  std::vector<Duration> start;     // [num_ops]
  std::vector<Duration> duration;  // [num_ops], contention included
  std::vector<DeviceUse> devices;  // [num_devices]
  bool has_issue_lanes = false;    // whether the cluster has issue lanes

  Duration total(ChainKind kind) const { return totals[static_cast<std::size_t>(kind)]; }
  // The number of kinds that can occur.
  std::size_t num_chain_kinds() const {
    return has_issue_lanes ? kNumChainKinds : static_cast<std::size_t>(ChainKind::kIssue);
  }
};

// Explains `timeline`, which a simulator with `options` recorded of `placement`.
//
// The engine's rules join the runs of ops, their issues and the transfers by precedence: inputs, control inputs, the
// order on each device, channel and issue lane, gaps, room in a queue. Each starts when the last that it follows is
// over; the chain is followed back from the end of the step. Where an input and the device or channel become free
// together, the chain follows the input. An op or transfer that only held the device or channel counts as a queue from
// the moment on at which what comes next was ready.
//
// Cost: linear in ops, edges and transfers. Throws InputError on a graph with collectives, which no rule here follows,
// and on a step of 2^53 ns (104 days) or more, whose times the timeline does not hold exactly.
StepExplanation ExplainStep(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                            const Placement& placement, const SimOptions& options, const Timeline& timeline);

}  // namespace emplace

#endif  // EMPLACE_SIM_STEP_EXPLANATION_H_
