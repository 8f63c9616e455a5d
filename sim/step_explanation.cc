#include "sim/step_explanation.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "sim/base/check.h"
#include "sim/step_precedence.h"

namespace emplace {
namespace {

constexpr std::uint32_t kNone = kInvalidStepItem;
constexpr double kUnlimited = std::numeric_limits<double>::infinity();

ChainItem RunItem(const StepPrecedence& step, std::uint32_t op) {
  return {.op = MakeId<OpId>(op), .device = step.input.DeviceOf(op), .to = step.input.DeviceOf(op)};
}

ChainItem TransferItem(const StepPrecedence& step, std::uint32_t transfer) {
  const StepTransfer& sent = step.order.transfers[transfer];
  return {.op = MakeId<OpId>(sent.op),
          .is_transfer = true,
          .tensor = sent.tensor,
          .device = step.input.DeviceOf(sent.op),
          .to = sent.to};
}

// Where the walk along the chain is, and what waits for it without a need of it.
struct ChainPosition {
  std::uint32_t op = kNone;         // a run, or
  std::uint32_t issue = kNone;      // the issue of an op, or
  std::uint32_t transfer = kNone;   // a transfer
  std::optional<DeviceId> to = {};  // destination of a shared transfer
  std::optional<ChainItem> waiter = {};
  double waits_from = 0;
};

// The chain from the end of the step backwards.
class BackwardChain {
 public:
  explicit BackwardChain(const StepInput& input) : input_(input) {}

  // Adds a part if it takes any time.
  void Add(ChainKind kind, double begin, double end, const ChainItem& item,
           const std::optional<ChainItem>& waiter = std::nullopt) {
    const ChainPart part{kind, input_.Nanos(begin), input_.Nanos(end), item, waiter};
    if (part.begin < part.end) parts_.push_back(part);
  }
  std::vector<ChainPart> Forward() const { return {parts_.rbegin(), parts_.rend()}; }

 private:
  const StepInput& input_;
  std::vector<ChainPart> parts_;
};

// The item before an op, or before its issue, which waited for its last input until then.
ChainPosition BeforeInput(const StepPrecedence& step, const StepEdge& edge, BackwardChain* chain) {
  if (step.IsByIssue(edge)) return {.issue = edge.producer};
  if (edge.transfer != kNone) return {.transfer = edge.transfer, .to = step.input.DeviceOf(edge.child)};
  const ChainItem control{.op = MakeId<OpId>(edge.producer),
                          .is_transfer = true,
                          .device = step.input.DeviceOf(edge.producer),
                          .to = step.input.DeviceOf(edge.child)};
  chain->Add(ChainKind::kTransfer, step.runs.end[edge.producer], step.Arrival(edge), control);
  return {.op = edge.producer};
}

ChainPosition BeforeIssue(const StepPrecedence& step, std::uint32_t op, BackwardChain* chain) {
  const double start = step.runs.issue_start[op];
  const StepEdge* const last = step.LastInput(op);
  if (last != nullptr && step.Arrival(*last) == start) return BeforeInput(step, *last, chain);
  const std::uint32_t before = step.issue.before[op];
  if (before != kNone && step.LaneFree(op) == start) return {.issue = before};
  const std::uint32_t before_room = step.issue.before_room[op];
  EMPLACE_CHECK(before_room != kNone);
  return {.op = before_room, .waiter = RunItem(step, op), .waits_from = std::max(step.Ready(op), step.LaneFree(op))};
}

ChainPosition BeforeRun(const StepPrecedence& step, std::uint32_t op, BackwardChain* chain) {
  const StepRuns& runs = step.runs;
  const double start = runs.start[op];
  const bool is_fed = step.input.IsFed(op);
  if (is_fed && runs.launched[op] == start) {
    chain->Add(ChainKind::kLaunch, runs.issue_end[op], start, RunItem(step, op));
    return {.issue = op};
  }
  const StepEdge* const last = step.LastInput(op);
  if (!is_fed && last != nullptr && step.Arrival(*last) == start) return BeforeInput(step, *last, chain);
  ChainPosition before{.waiter = RunItem(step, op), .waits_from = is_fed ? runs.launched[op] : step.Ready(op)};
  const std::uint32_t before_op = step.order.before_op[op];
  if (before_op != kNone && runs.free[before_op] == start) {
    before.op = before_op;
    chain->Add(ChainKind::kGap, runs.end[before_op], start, RunItem(step, before_op));
  } else {
    before.transfer = step.order.before_transfer[op];
    EMPLACE_CHECK(before.transfer != kNone);
    chain->Add(ChainKind::kGap, step.order.transfers[before.transfer].arrival, start,
               TransferItem(step, before.transfer));
  }
  return before;
}

ChainPosition BeforeTransfer(const StepPrecedence& step, std::uint32_t transfer, const ChainItem& item,
                             BackwardChain* chain) {
  const StepTransfer& sent = step.order.transfers[transfer];
  const double exists = step.runs.end[sent.op];
  if (sent.start == exists) return {.op = sent.op};
  EMPLACE_CHECK(sent.before != kNone);
  chain->Add(ChainKind::kGap, step.order.transfers[sent.before].arrival, sent.start, TransferItem(step, sent.before));
  return {.transfer = sent.before, .waiter = item, .waits_from = exists};
}

ChainPosition EndOfChain(const StepPrecedence& step, BackwardChain* chain) {
  const std::uint32_t transfer = step.end.transfer;
  if (transfer != kNone) {
    chain->Add(ChainKind::kGap, step.order.transfers[transfer].arrival, step.end.time, TransferItem(step, transfer));
    return {.transfer = transfer};
  }
  chain->Add(ChainKind::kGap, step.runs.end[step.end.op], step.end.time, RunItem(step, step.end.op));
  return {.op = step.end.op};
}

// Adds the issue of an op. Returns what is before it; none at the begin of the step.
std::optional<ChainPosition> AddIssue(const StepPrecedence& step, std::uint32_t op, BackwardChain* chain) {
  const double start = step.runs.issue_start[op];
  chain->Add(ChainKind::kIssue, start, step.runs.issue_end[op], RunItem(step, op));
  if (start <= 0) return std::nullopt;
  return BeforeIssue(step, op, chain);
}

// The same for a run or a transfer.
std::optional<ChainPosition> AddItem(const StepPrecedence& step, const ChainPosition& at, BackwardChain* chain) {
  const bool is_run = at.op != kNone;
  const double start = is_run ? step.runs.start[at.op] : step.order.transfers[at.transfer].start;
  const double end = is_run ? step.runs.end[at.op] : step.order.transfers[at.transfer].arrival;
  ChainItem item = is_run ? RunItem(step, at.op) : TransferItem(step, at.transfer);
  if (at.to) item.to = *at.to;
  const double needed_until = at.waiter ? std::clamp(at.waits_from, start, end) : end;
  if (at.waiter) {
    const ChainKind queue = at.waiter->is_transfer ? ChainKind::kChannelQueue : ChainKind::kDeviceQueue;
    chain->Add(queue, needed_until, end, item, at.waiter);
  }
  chain->Add(is_run ? ChainKind::kCompute : ChainKind::kTransfer, start, needed_until, item);
  if (start <= 0) return std::nullopt;
  return is_run ? BeforeRun(step, at.op, chain) : BeforeTransfer(step, at.transfer, item, chain);
}

// The critical chain, from the begin of the step to its end.
std::vector<ChainPart> FindChain(const StepPrecedence& step) {
  BackwardChain chain(step.input);
  if (step.num_ops() == 0) return {};
  std::optional<ChainPosition> at = EndOfChain(step, &chain);
  while (at) at = at->issue != kNone ? AddIssue(step, at->issue, &chain) : AddItem(step, *at, &chain);
  return chain.Forward();
}

// Each op after its producers, after the op before it on its device, and after what its lane issued before it.
std::vector<std::uint32_t> TopologicalRuns(const StepPrecedence& step) {
  const StepOrder& order = step.order;
  std::vector<std::uint32_t> waits(step.num_ops(), 0);
  std::vector<std::uint32_t> sorted;
  sorted.reserve(waits.size());
  for (std::uint32_t op = 0; op < waits.size(); ++op) {
    waits[op] = step.inputs.first[op + 1] - step.inputs.first[op] + (order.before_op[op] == kNone ? 0 : 1) +
                (step.issue.before[op] == kNone ? 0 : 1);
    if (waits[op] == 0) sorted.push_back(op);
  }
  const auto release = [&](std::uint32_t op) {
    if (--waits[op] == 0) sorted.push_back(op);
  };
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    const std::uint32_t op = sorted[i];
    for (std::uint32_t e = order.outputs[op].begin; e < order.outputs[op].end; ++e) release(order.edges[e].child);
    if (order.next_op[op] != kNone) release(order.next_op[op]);
    if (step.issue.next[op] != kNone) release(step.issue.next[op]);
  }
  EMPLACE_CHECK_EQ(sorted.size(), step.num_ops());
  return sorted;
}

// The latest times that do not lengthen the step. Those of an op are final when all that follows it was seen.
struct LatestTimes {
  std::vector<double> end;          // indexed by op
  std::vector<double> issue_start;  // indexed by op, on devices with an issue lane
  std::vector<double> arrival;      // indexed by transfer
};

LatestTimes TimesAtEnd(const StepPrecedence& step) {
  const StepRuns& runs = step.runs;
  LatestTimes latest;
  latest.issue_start.assign(step.num_ops(), kUnlimited);
  for (std::size_t op = 0; op < step.num_ops(); ++op) {
    latest.end.push_back(step.input.is_fifo ? step.end.time : step.end.time - (runs.free[op] - runs.end[op]));
  }
  for (const StepTransfer& sent : step.order.transfers) {
    latest.arrival.push_back(step.input.is_fifo ? kUnlimited : step.end.time - (sent.free - sent.arrival));
  }
  return latest;
}

double LatestStart(const StepRuns& runs, const LatestTimes& latest, std::uint32_t op) {
  return latest.end[op] - (runs.end[op] - runs.start[op]);
}

// The latest issue of an op on a device with an issue lane; the op whose end makes room for it must end by then.
void LimitIssue(const StepPrecedence& step, std::uint32_t op, LatestTimes* latest) {
  const StepRuns& runs = step.runs;
  double issued_by = LatestStart(runs, *latest, op) - (runs.launched[op] - runs.issue_end[op]);
  if (const std::uint32_t next = step.issue.next[op]; next != kNone) {
    issued_by = std::min(issued_by, latest->issue_start[next]);
  }
  for (std::uint32_t e = step.order.outputs[op].begin; e < step.order.outputs[op].end; ++e) {
    const StepEdge& edge = step.order.edges[e];
    if (step.IsByIssue(edge)) issued_by = std::min(issued_by, latest->issue_start[edge.child]);
  }
  latest->issue_start[op] = issued_by - (runs.issue_end[op] - runs.issue_start[op]);
  if (const std::uint32_t before = step.issue.before_room[op]; before != kNone) {
    latest->end[before] = std::min(latest->end[before], latest->issue_start[op]);
  }
}

// The latest end of an op, after those of all that follows it, and what that means for what is before its transfers.
void LimitRun(const StepPrecedence& step, std::uint32_t op, LatestTimes* latest) {
  const StepRuns& runs = step.runs;
  const StepOrder& order = step.order;
  // A transfer's channel, or its device, must be free by `when`.
  const auto free_by = [&](std::uint32_t transfer, double when) {
    if (transfer == kNone) return;
    const StepTransfer& sent = order.transfers[transfer];
    latest->arrival[transfer] = std::min(latest->arrival[transfer], when - (sent.free - sent.arrival));
  };
  double& mine = latest->end[op];
  if (order.next_op[op] != kNone) {
    mine = std::min(mine, LatestStart(runs, *latest, order.next_op[op]) - (runs.free[op] - runs.end[op]));
  }
  for (std::uint32_t e = order.outputs[op].begin; e < order.outputs[op].end; ++e) {
    const StepEdge& edge = order.edges[e];
    if (step.IsByIssue(edge)) continue;
    double& limit = edge.transfer == kNone ? mine : latest->arrival[edge.transfer];
    const double needed =
        step.input.IsFed(edge.child) ? latest->issue_start[edge.child] : LatestStart(runs, *latest, edge.child);
    limit = std::min(limit, needed - edge.latency);
  }
  for (std::uint32_t t = order.sends[op].end; t-- > order.sends[op].begin;) {
    const StepTransfer& sent = order.transfers[t];
    const double begin = latest->arrival[t] - (sent.arrival - sent.start);
    mine = std::min(mine, begin);
    free_by(sent.before, begin);
  }
  free_by(order.before_transfer[op], LatestStart(runs, *latest, op));
}

// How much later each op could end: the longest path backwards over the precedence.
std::vector<Duration> FindSlack(const StepPrecedence& step) {
  std::vector<Duration> slack(step.num_ops());
  LatestTimes latest = TimesAtEnd(step);
  const std::vector<std::uint32_t> sorted = TopologicalRuns(step);
  for (std::size_t i = sorted.size(); i-- > 0;) {
    const std::uint32_t op = sorted[i];
    LimitRun(step, op, &latest);
    if (step.input.IsFed(op)) LimitIssue(step, op, &latest);
    slack[op] = std::max(Duration(0), step.input.Nanos(latest.end[op] - step.runs.end[op]));
  }
  return slack;
}

// Adds what an op's device did from `at` until the op started.
void AddIdleTime(const StepPrecedence& step, std::uint32_t op, double at, DeviceUse* use) {
  const double start = step.runs.start[op];
  const auto span = [&](double begin, double end) {
    return step.input.Nanos(std::max(begin, end)) - step.input.Nanos(begin);
  };
  if (const std::uint32_t transfer = step.order.before_transfer[op]; transfer != kNone) {
    const double sends_until = std::clamp(step.order.transfers[transfer].free, at, start);
    use->sending += span(at, sends_until);
    at = sends_until;
  }
  if (at >= start) return;
  const bool is_fed = step.input.IsFed(op);
  const StepEdge* const last = step.LastInput(op);
  if (last != nullptr && !step.IsByIssue(*last)) {
    const double ready = is_fed ? std::clamp(step.Ready(op), at, start) : start;
    const double exists = std::clamp(step.runs.end[last->producer], at, ready);
    use->waiting_for_ops += span(at, exists);
    use->waiting_for_transfers += span(exists, ready);
    at = ready;
  }
  if (is_fed) use->waiting_for_issue += span(at, start);
}

std::vector<DeviceUse> FindDeviceUse(const StepPrecedence& step, const std::vector<ChainPart>& chain) {
  const StepRuns& runs = step.runs;
  std::vector<DeviceUse> devices(step.input.cluster.num_devices());
  std::vector<double> until(devices.size(), 0);  // accounted for
  const auto span = [&](double begin, double end) {
    return step.input.Nanos(std::max(begin, end)) - step.input.Nanos(begin);
  };
  for (const std::uint32_t op : runs.order) {
    const std::size_t device = Index(step.input.DeviceOf(op));
    DeviceUse& use = devices[device];
    AddIdleTime(step, op, until[device], &use);
    const double free = std::min(runs.free[op], step.end.time);
    use.busy += span(runs.start[op], runs.end[op]);
    use.gap += span(runs.end[op], free);
    until[device] = std::max(runs.end[op], free);
  }
  for (std::size_t d = 0; d < devices.size(); ++d) devices[d].idle = span(until[d], step.end.time);
  for (const ChainPart& part : chain) {
    const bool on_device = part.kind == ChainKind::kDeviceQueue || !part.item.is_transfer;
    if (on_device) devices[Index(part.item.device)].on_chain += part.length();
  }
  return devices;
}

}  // namespace

std::string_view Name(ChainKind kind) {
  static constexpr std::string_view kNames[] = {"compute", "transfer", "device_queue", "channel_queue",
                                                "gap",     "issue",    "launch"};
  return kNames[static_cast<std::size_t>(kind)];
}

StepExplanation ExplainStep(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                            const Placement& placement, const SimOptions& options, const Timeline& timeline) {
  if (!graph.collectives().empty()) {
    throw InputError(
        "", "graph " + graph.name() + " has collectives, whose waits are not explained (simulate tells the step)");
  }
  if (!cluster.has_plain_links()) {
    throw InputError("", "cluster " + cluster.name() +
                             " has links without contention or with receive, whose waits are not explained (simulate "
                             "tells the step)");
  }
  const StepPrecedence step = FindPrecedence(graph, cluster, costs, placement, options, timeline);
  StepExplanation result;
  result.has_issue_lanes = cluster.has_issue_lanes();
  result.step_time = step.input.Nanos(step.end.time);
  result.chain = FindChain(step);
  for (const ChainPart& part : result.chain) result.totals[static_cast<std::size_t>(part.kind)] += part.length();
  result.slack = FindSlack(step);
  for (std::size_t op = 0; op < step.num_ops(); ++op) {
    result.start.push_back(step.input.Nanos(step.runs.start[op]));
    result.duration.push_back(step.input.Nanos(step.runs.end[op]) - step.input.Nanos(step.runs.start[op]));
  }
  result.devices = FindDeviceUse(step, result.chain);
  return result;
}

}  // namespace emplace
