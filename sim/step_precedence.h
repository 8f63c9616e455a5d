#ifndef EMPLACE_SIM_STEP_PRECEDENCE_H_
#define EMPLACE_SIM_STEP_PRECEDENCE_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "sim/base/units.h"
#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/graph.h"
#include "sim/placement.h"
#include "sim/simulator.h"
#include "sim/timeline.h"

// The precedence of ops and transfers of a simulated step by the rules of docs/model.md. Times are in the engine's
// unit. fifo and flow: whole ns, whose sums doubles hold exactly. placeto-reference: its doubles in µs, computed by the
// same operations.
namespace emplace {

inline constexpr std::uint32_t kInvalidStepItem = std::numeric_limits<std::uint32_t>::max();

// The simulated problem.
struct StepInput {
  const Graph& graph;
  const Cluster& cluster;
  const CostTable& costs;
  const Placement& placement;
  bool is_fifo = true;  // or flow; else placeto-reference

  DeviceId DeviceOf(std::size_t op) const { return placement[MakeId<OpId>(op)]; }
  // Whether an issue lane feeds the op's device.
  bool IsFed(std::size_t op) const { return cluster.device(DeviceOf(op)).issue.has_value(); }
  // A time of the cluster or the costs in the engine's unit.
  double FromMicros(double micros) const;
  Duration Nanos(double time) const;
};

// When each op ran, by op.
struct StepRuns {
  std::vector<std::uint32_t> order;  // ops as they ran, exact for those of one device
  std::vector<double> start;
  std::vector<double> end;
  std::vector<double> free;  // time at which the device is free, ignoring its own transfers
  // Only ops on devices that an issue lane feeds have these.
  std::vector<double> issue_start;
  std::vector<double> issue_end;
  std::vector<double> launched;  // the issue's end and the launch latency
};

// The order in which lanes issue ops, by op (docs/model.md, F16 and F18).
struct IssueOrder {
  std::vector<std::uint32_t> before;       // the op that the lane issued before it
  std::vector<std::uint32_t> next;         // and after it
  std::vector<std::uint32_t> before_room;  // the op whose end made room in the queue
};

// A transfer of the step.
struct StepTransfer {
  std::uint32_t op = 0;
  std::optional<TensorId> tensor = {};
  DeviceId to{};  // the first destination, where several share the transfer
  double start = 0;
  double arrival = 0;
  double free = 0;                          // the channel is free again
  std::uint32_t before = kInvalidStepItem;  // the transfer before it on the channel
};

// The dependency of a child on a producer.
struct StepEdge {
  std::uint32_t producer = 0;
  std::uint32_t child = 0;
  std::uint32_t transfer = kInvalidStepItem;
  double latency = 0;  // without a transfer: of a control input between devices
};

// A part of a list.
struct StepRange {
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
};

// The predecessors of ops on their device, and their transfers, indexed by op.
struct StepOrder {
  std::vector<std::uint32_t> before_op;        // the op before it on its device
  std::vector<std::uint32_t> next_op;          // and after it
  std::vector<std::uint32_t> before_transfer;  // the transfer that its device had to finish (F13)
  std::vector<StepTransfer> transfers;         // grouped by producer, in the order in which ops ran
  std::vector<StepEdge> edges;                 // grouped by producer, in the order in which ops ran
  std::vector<StepRange> sends;                // ranges of `transfers`
  std::vector<StepRange> outputs;              // ranges of `edges`
};

// The edges of each child.
struct StepInputs {
  std::vector<std::uint32_t> first;  // [num_ops + 1], of `edges`
  std::vector<std::uint32_t> edges;  // positions in StepOrder::edges
};

// The item that ends the step (docs/model.md, F12 and P22).
struct StepEnd {
  std::uint32_t op = kInvalidStepItem;
  std::uint32_t transfer = kInvalidStepItem;  // if the step ends with a transfer
  double time = 0;
};

struct StepPrecedence {
  StepInput input;
  StepRuns runs;
  IssueOrder issue;
  StepOrder order;
  StepInputs inputs;
  StepEnd end;

  std::size_t num_ops() const { return input.graph.num_ops(); }
  // Whether the child needs the issue of its producer, not its end.
  bool IsByIssue(const StepEdge& edge) const;
  // When the child has what it needs.
  double Arrival(const StepEdge& edge) const;
  // The edge that an op waited for longest; of several the first. Null if it has no inputs.
  const StepEdge* LastInput(std::uint32_t op) const;
  // When the last input was there; 0 without inputs.
  double Ready(std::uint32_t op) const;
  // When the op's lane had issued what came before it.
  double LaneFree(std::uint32_t op) const;
};

// The precedence of a timeline of the engine in `options`. Checks that it is that of the engine: each op starts when
// the last of what it follows is over. Throws InputError if a step is too long for exact ns.
StepPrecedence FindPrecedence(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                              const Placement& placement, const SimOptions& options, const Timeline& timeline);

}  // namespace emplace

#endif  // EMPLACE_SIM_STEP_PRECEDENCE_H_
