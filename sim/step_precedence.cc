#include "sim/step_precedence.h"

#include <algorithm>
#include <deque>
#include <map>
#include <string_view>
#include <utility>

#include "sim/base/check.h"
#include "sim/engines/placeto_reference.h"
#include "sim/last_wait.h"

namespace emplace {
namespace {

constexpr double kExactNanos = 9007199254740992.0;  // 2^53: from there on a double skips whole numbers

StepRuns ReadRuns(const StepInput& input, const Timeline& timeline) {
  const std::size_t num_ops = input.graph.num_ops();
  StepRuns runs;
  for (auto* const times : {&runs.start, &runs.end, &runs.free, &runs.issue_start, &runs.issue_end, &runs.launched}) {
    times->resize(num_ops);
  }
  for (const Timeline::OpRun& run : timeline.ops) {
    const std::size_t op = Index(run.op);
    const Device& device = input.cluster.device(run.device);
    runs.order.push_back(static_cast<std::uint32_t>(op));
    if (input.is_fifo && run.end_micros * 1000.0 >= kExactNanos) {
      throw InputError("", "the step takes 104 days or more, and is not explained to the ns (a shorter step)");
    }
    runs.start[op] = input.FromMicros(run.start_micros);
    runs.end[op] = input.FromMicros(run.end_micros);
    runs.issue_start[op] = input.FromMicros(run.issue_start_micros);
    runs.issue_end[op] = input.FromMicros(run.issue_end_micros);
    runs.launched[op] = runs.issue_end[op];
    if (input.IsFed(op) && runs.end[op] != runs.start[op]) {
      runs.launched[op] += input.FromMicros(device.issue->launch_latency_micros);
    }
    const bool takes_none =
        input.is_fifo ? runs.end[op] == runs.start[op] : input.costs.Micros(run.op, run.device) == 0;
    runs.free[op] = runs.end[op] + (takes_none ? 0.0 : input.FromMicros(device.op_gap_micros));
  }
  return runs;
}

// The lane of each device, by the first device that it feeds.
std::vector<std::size_t> LanesOf(const Cluster& cluster) {
  std::map<std::string_view, std::size_t> named;
  std::vector<std::size_t> lane_of(cluster.num_devices());
  for (std::size_t d = 0; d < lane_of.size(); ++d) {
    const auto& issue = cluster.devices()[d].issue;
    lane_of[d] = issue && !issue->lane.empty() ? named.try_emplace(issue->lane, d).first->second : d;
  }
  return lane_of;
}

IssueOrder FindIssueOrder(const StepInput& input, const StepRuns& runs, const Timeline& timeline) {
  const std::size_t num_ops = input.graph.num_ops();
  IssueOrder order;
  order.before.assign(num_ops, kInvalidStepItem);
  order.next.assign(num_ops, kInvalidStepItem);
  order.before_room.assign(num_ops, kInvalidStepItem);
  const std::vector<std::size_t> lane_of = LanesOf(input.cluster);
  std::vector<std::uint32_t> last_of_lane(lane_of.size(), kInvalidStepItem);
  std::vector<std::deque<std::uint32_t>> queued(lane_of.size());  // ops that count, at most max_queued
  for (const OpId id : timeline.issued) {
    const auto op = static_cast<std::uint32_t>(Index(id));
    const std::size_t device = Index(input.DeviceOf(op));
    const IssueLane& lane = *input.cluster.devices()[device].issue;
    const std::uint32_t last = std::exchange(last_of_lane[lane_of[device]], op);
    order.before[op] = last;
    if (last != kInvalidStepItem) order.next[last] = op;
    const bool is_full =
        lane.max_queued > 0 && queued[device].size() == static_cast<std::size_t>(lane.max_queued);  // 0: no limit
    if (is_full) order.before_room[op] = queued[device].front();
    if (runs.end[op] == runs.start[op]) continue;
    if (is_full) queued[device].pop_front();
    queued[device].push_back(op);
  }
  return order;
}

// How long each transfer of flow took, which depends on the others that shared its links.
using FlowTimes = std::map<std::pair<TensorId, DeviceId>, double>;

FlowTimes ReadTransfers(const StepInput& input, const Timeline& timeline) {
  FlowTimes takes;
  for (const Timeline::Transfer& transfer : timeline.transfers) {
    takes[{transfer.tensor, transfer.to}] =
        input.FromMicros(transfer.arrival_micros) - input.FromMicros(transfer.start_micros);
  }
  return takes;
}

// The last transfer of each channel (docs/model.md, F5, F13 and P10).
class ChannelTails {
 public:
  explicit ChannelTails(const Cluster& cluster)
      : cluster_(cluster), last_(cluster.num_devices() * cluster.num_devices(), kInvalidStepItem) {}

  std::uint32_t& Last(DeviceId from, DeviceId to) {
    if (cluster_.channels() == Channels::kPerDevice) return last_[Index(from)];
    return last_[Index(from) * cluster_.num_devices() + Index(cluster_.device(from).copy_engine ? to : from)];
  }

 private:
  const Cluster& cluster_;
  std::vector<std::uint32_t> last_;
};

// Adds a transfer behind those of its channel; `sent` has the op, the tensor and the destination.
std::uint32_t Send(const StepInput& input, StepTransfer sent, double ready, double time, double gap,
                   ChannelTails* tails, std::vector<StepTransfer>* transfers) {
  std::uint32_t& last = tails->Last(input.DeviceOf(sent.op), sent.to);
  sent.before = last;
  sent.start = std::max(ready, last == kInvalidStepItem ? 0.0 : (*transfers)[last].free);
  sent.arrival = sent.start + time;
  sent.free = sent.arrival + gap;
  last = static_cast<std::uint32_t>(transfers->size());
  transfers->push_back(sent);
  return last;
}

// The devices other than `from` that read a tensor, each once.
std::vector<DeviceId> Destinations(const StepInput& input, TensorId tensor, DeviceId from) {
  std::vector<DeviceId> destinations;
  for (const OpId reader : input.graph.consumers(tensor)) {
    if (input.placement[reader] != from) destinations.push_back(input.placement[reader]);
  }
  std::sort(destinations.begin(), destinations.end());
  destinations.erase(std::unique(destinations.begin(), destinations.end()), destinations.end());
  return destinations;
}

// Adds the transfers and edges of an op. docs/model.md, F4 to F8. `takes`: of flow; else empty.
void SendFifo(const StepInput& input, const FlowTimes& takes, std::uint32_t op, double end, ChannelTails* tails,
              StepOrder* order) {
  const Graph& graph = input.graph;
  const OpId id = MakeId<OpId>(op);
  const DeviceId from = input.DeviceOf(op);
  std::map<DeviceId, std::uint32_t> transfer_to;
  for (std::size_t k = 0; k < graph.num_outputs(id); ++k) {
    const TensorId tensor = MakeId<TensorId>(Index(graph.first_output(id)) + k);
    for (const DeviceId to : Destinations(input, tensor, from)) {
      const Link& link = input.cluster.link(from, to);
      const Duration time = TransferDuration(graph.tensor(tensor).size, link.rate());
      const double taken = takes.empty() ? input.FromMicros(link.latency_micros) + static_cast<double>(time.count())
                                         : takes.at({tensor, to});
      transfer_to[to] = Send(input, {.op = op, .tensor = tensor, .to = to}, end, taken,
                             input.FromMicros(link.gap_micros), tails, &order->transfers);
    }
    for (const OpId reader : graph.consumers(tensor)) {
      const DeviceId to = input.placement[reader];
      order->edges.push_back(
          {op, static_cast<std::uint32_t>(reader), to == from ? kInvalidStepItem : transfer_to.at(to), 0});
    }
  }
  for (const OpId waits : graph.control_consumers(id)) {
    const DeviceId to = input.placement[waits];
    order->edges.push_back({op, static_cast<std::uint32_t>(waits), kInvalidStepItem,
                            to == from ? 0.0 : input.FromMicros(input.cluster.link(from, to).latency_micros)});
  }
}

// The same by docs/model.md, P9 to P13. `children`: of the op.
void SendPlaceto(const StepInput& input, const std::vector<PlacetoChild>& children, std::uint32_t op, double end,
                 ChannelTails* tails, StepOrder* order) {
  const Graph& graph = input.graph;
  const OpId id = MakeId<OpId>(op);
  const DeviceId from = input.DeviceOf(op);
  std::map<std::uint32_t, std::uint32_t> sent;  // transfers, by output
  for (const auto& [child, output] : children) {
    std::uint32_t transfer = kInvalidStepItem;
    if (input.placement[child] != from) {
      const auto [found, is_new] = sent.try_emplace(output, kInvalidStepItem);
      if (is_new) {
        const DeviceId to = input.placement[child];
        const Link& link = input.cluster.link(from, to);
        std::optional<TensorId> tensor;
        if (output < graph.num_outputs(id)) tensor = MakeId<TensorId>(Index(graph.first_output(id)) + output);
        const double bytes = tensor ? static_cast<double>(graph.tensor(*tensor).size.count) : 0.0;
        const double time = bytes / (link.bandwidth_gb_per_s * 1000.0);
        found->second =
            Send(input, {.op = op, .tensor = tensor, .to = to}, end, time, link.gap_micros, tails, &order->transfers);
      }
      transfer = found->second;
    }
    order->edges.push_back({op, static_cast<std::uint32_t>(child), transfer, 0});
  }
}

StepOrder FindOrder(const StepInput& input, const StepRuns& runs, const FlowTimes& takes) {
  const std::size_t num_ops = input.graph.num_ops();
  StepOrder order;
  order.before_op.assign(num_ops, kInvalidStepItem);
  order.next_op.assign(num_ops, kInvalidStepItem);
  order.before_transfer.assign(num_ops, kInvalidStepItem);
  order.sends.resize(num_ops);
  order.outputs.resize(num_ops);
  const auto children = input.is_fifo ? std::vector<std::vector<PlacetoChild>>() : PlacetoChildren(input.graph);
  std::vector<std::uint32_t> last_op(input.cluster.num_devices(), kInvalidStepItem);
  ChannelTails tails(input.cluster);
  for (const std::uint32_t op : runs.order) {
    const DeviceId device = input.DeviceOf(op);
    const std::uint32_t last = std::exchange(last_op[Index(device)], op);
    order.before_op[op] = last;
    if (last != kInvalidStepItem) order.next_op[last] = op;
    if (!input.cluster.device(device).copy_engine) order.before_transfer[op] = tails.Last(device, device);
    order.outputs[op].begin = static_cast<std::uint32_t>(order.edges.size());
    order.sends[op].begin = static_cast<std::uint32_t>(order.transfers.size());
    if (input.is_fifo) {
      SendFifo(input, takes, op, runs.end[op], &tails, &order);
    } else {
      SendPlaceto(input, children[op], op, runs.end[op], &tails, &order);
    }
    order.outputs[op].end = static_cast<std::uint32_t>(order.edges.size());
    order.sends[op].end = static_cast<std::uint32_t>(order.transfers.size());
  }
  return order;
}

StepInputs SortByChild(const std::vector<StepEdge>& edges, std::size_t num_ops) {
  StepInputs inputs;
  inputs.first.assign(num_ops + 1, 0);
  for (const StepEdge& edge : edges) ++inputs.first[edge.child + 1];
  for (std::size_t i = 0; i < num_ops; ++i) inputs.first[i + 1] += inputs.first[i];
  inputs.edges.resize(edges.size());
  std::vector<std::uint32_t> next(inputs.first.begin(), inputs.first.end() - 1);
  for (std::size_t e = 0; e < edges.size(); ++e) inputs.edges[next[edges[e].child]++] = static_cast<std::uint32_t>(e);
  return inputs;
}

StepEnd FindEnd(bool is_fifo, const StepRuns& runs, const std::vector<StepTransfer>& transfers) {
  const std::vector<double>& last = is_fifo ? runs.end : runs.free;
  StepEnd end;
  for (std::uint32_t op = 0; op < last.size(); ++op) {
    if (end.op == kInvalidStepItem || last[op] > end.time) {
      end.op = op;
      end.time = last[op];
    }
  }
  for (std::uint32_t t = 0; t < transfers.size() && !is_fifo; ++t) {
    if (transfers[t].free <= end.time) continue;
    end.transfer = t;
    end.time = transfers[t].free;
  }
  return end;
}

void CheckStarts(const StepPrecedence& step) {
  const StepRuns& runs = step.runs;
  for (std::uint32_t op = 0; op < step.num_ops(); ++op) {
    double start = step.Ready(op);
    if (step.input.IsFed(op)) {
      const std::uint32_t before = step.issue.before_room[op];
      const double room_free = before == kInvalidStepItem ? 0.0 : runs.end[before];
      EMPLACE_CHECK_EQ(std::max({start, step.LaneFree(op), room_free}), runs.issue_start[op]);
      start = runs.launched[op];
    }
    if (const std::uint32_t before = step.order.before_op[op]; before != kInvalidStepItem) {
      start = std::max(start, runs.free[before]);
    }
    if (const std::uint32_t before = step.order.before_transfer[op]; before != kInvalidStepItem) {
      start = std::max(start, step.order.transfers[before].free);
    }
    EMPLACE_CHECK_EQ(start, runs.start[op]);
  }
}

}  // namespace

double StepInput::FromMicros(double micros) const {
  return is_fifo ? static_cast<double>(DurationFromMicros(micros).count()) : micros;
}

Duration StepInput::Nanos(double time) const {
  return Duration(is_fifo ? RoundToInteger(time) : RoundToInteger(time * 1000.0));
}

bool StepPrecedence::IsByIssue(const StepEdge& edge) const {
  return input.IsFed(edge.producer) && input.DeviceOf(edge.producer) == input.DeviceOf(edge.child);
}

double StepPrecedence::Arrival(const StepEdge& edge) const {
  if (IsByIssue(edge)) return runs.issue_end[edge.producer];
  return edge.transfer == kInvalidStepItem ? runs.end[edge.producer] + edge.latency
                                           : order.transfers[edge.transfer].arrival;
}

const StepEdge* StepPrecedence::LastInput(std::uint32_t op) const {
  LastWait<const StepEdge*> last;
  for (std::uint32_t k = inputs.first[op]; k < inputs.first[op + 1]; ++k) {
    const StepEdge& edge = order.edges[inputs.edges[k]];
    last.Consider(&edge, Arrival(edge));
  }
  return last.what().value_or(nullptr);
}

double StepPrecedence::Ready(std::uint32_t op) const {
  const StepEdge* const last = LastInput(op);
  return last == nullptr ? 0.0 : Arrival(*last);
}

double StepPrecedence::LaneFree(std::uint32_t op) const {
  return issue.before[op] == kInvalidStepItem ? 0.0 : runs.issue_end[issue.before[op]];
}

StepPrecedence FindPrecedence(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                              const Placement& placement, const SimOptions& options, const Timeline& timeline) {
  const bool is_flow = options.engine == "flow";
  const bool is_fifo = options.engine != "placeto-reference";
  EMPLACE_CHECK_EQ(placement.num_ops(), graph.num_ops());
  EMPLACE_CHECK_EQ(timeline.ops.size(), graph.num_ops());
  EMPLACE_CHECK_EQ(options.initial_offset_micros, 0.0);
  EMPLACE_CHECK(options.engine == "fifo" || is_flow || !is_fifo);
  StepPrecedence step{.input = {graph, cluster, costs, placement, is_fifo},
                      .runs = {},
                      .issue = {},
                      .order = {},
                      .inputs = {},
                      .end = {}};
  step.runs = ReadRuns(step.input, timeline);
  step.issue = FindIssueOrder(step.input, step.runs, timeline);
  step.order = FindOrder(step.input, step.runs, is_flow ? ReadTransfers(step.input, timeline) : FlowTimes());
  step.inputs = SortByChild(step.order.edges, graph.num_ops());
  step.end = FindEnd(is_fifo, step.runs, step.order.transfers);
  CheckStarts(step);
  return step;
}

}  // namespace emplace
