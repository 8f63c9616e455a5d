#include "sim/step_explanation.h"

#include <algorithm>
#include <deque>
#include <limits>
#include <map>
#include <string_view>
#include <utility>

#include "sim/base/check.h"
#include "sim/engines/placeto_reference.h"

namespace emplace {
namespace {

constexpr double kExactNanos = 9007199254740992.0;  // 2^53: from there on a double skips whole numbers
constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

// A transfer of the step. Times in the engine's unit, ns or µs.
struct Sent {
  std::uint32_t op = 0;
  std::optional<TensorId> tensor = {};
  DeviceId to{};  // the first destination, where several share the transfer
  double start = 0;
  double arrival = 0;
  double free = 0;                                          // the channel is free again
  std::uint32_t before = kNone;                             // the transfer before it on the channel
  double latest = std::numeric_limits<double>::infinity();  // arrival that does not lengthen the step
};

// What a child needs of a producer.
struct StepEdge {
  std::uint32_t producer = 0;
  std::uint32_t child = 0;
  std::uint32_t transfer = kNone;  // of `sent`
  double latency = 0;              // without a transfer: of a control input between devices
};

// The runs and transfers of a step with their precedence. fifo: times are whole ns, whose sums doubles hold exactly.
// placeto-reference: times are its doubles in µs, computed by the same operations.
class Step {
 public:
  Step(const Graph& graph, const Cluster& cluster, const CostTable& costs, const Placement& placement,
       const SimOptions& options, const Timeline& timeline)
      : graph_(graph),
        cluster_(cluster),
        costs_(costs),
        placement_(placement),
        is_fifo_(options.engine != "placeto-reference"),
        num_ops_(graph.num_ops()),
        num_devices_(cluster.num_devices()) {
    EMPLACE_CHECK_EQ(placement.num_ops(), num_ops_);
    EMPLACE_CHECK_EQ(timeline.ops.size(), num_ops_);
    EMPLACE_CHECK_EQ(options.initial_offset_micros, 0.0);
    EMPLACE_CHECK(options.engine == "fifo" || options.engine == "flow" || !is_fifo_);
    ReadRuns(timeline);
    if (options.engine == "flow") ReadTransfers(timeline);
    FindIssueOrder(timeline);
    if (!is_fifo_) children_ = PlacetoChildren(graph_);
    FindPrecedence();
    SortByChild();
    FindEnd();
  }

  StepExplanation Explain() {
    StepExplanation result;
    result.has_issue_lanes = cluster_.has_issue_lanes();
    result.step_time = Nanos(step_time_);
    CheckStarts();
    WalkChain(&result);
    for (const ChainPart& part : result.chain) result.totals[static_cast<std::size_t>(part.kind)] += part.length();
    FindSlack(&result);
    for (std::size_t i = 0; i < num_ops_; ++i) {
      result.start.push_back(Nanos(start_[i]));
      result.duration.push_back(Nanos(end_[i]) - Nanos(start_[i]));
    }
    FindDeviceUse(&result);
    return result;
  }

 private:
  Duration Nanos(double time) const {
    return Duration(is_fifo_ ? RoundToInteger(time) : RoundToInteger(time * 1000.0));
  }
  // A time of the cluster or the costs in the engine's unit.
  double OfMicros(double micros) const {
    return is_fifo_ ? static_cast<double>(DurationFromMicros(micros).count()) : micros;
  }
  DeviceId DeviceOf(std::size_t op) const { return placement_[MakeId<OpId>(op)]; }

  // What each took, which depends on the others that shared its links.
  void ReadTransfers(const Timeline& timeline) {
    for (const Timeline::Transfer& transfer : timeline.transfers) {
      takes_[{transfer.tensor, transfer.to}] = OfMicros(transfer.arrival_micros) - OfMicros(transfer.start_micros);
    }
  }

  void ReadRuns(const Timeline& timeline) {
    start_.resize(num_ops_);
    end_.resize(num_ops_);
    free_.resize(num_ops_);
    issue_start_.resize(num_ops_);
    issue_end_.resize(num_ops_);
    launched_.resize(num_ops_);
    for (const Timeline::OpRun& run : timeline.ops) {
      const std::size_t op = Index(run.op);
      order_.push_back(static_cast<std::uint32_t>(op));
      if (is_fifo_ && run.end_micros * 1000.0 >= kExactNanos) {
        throw InputError("", "the step takes 104 days or more, and is not explained to the ns (a shorter step)");
      }
      start_[op] = OfMicros(run.start_micros);
      end_[op] = OfMicros(run.end_micros);
      issue_start_[op] = OfMicros(run.issue_start_micros);
      issue_end_[op] = OfMicros(run.issue_end_micros);
      launched_[op] = issue_end_[op];
      if (IsFed(op) && end_[op] != start_[op]) {
        launched_[op] += OfMicros(cluster_.device(run.device).issue->launch_latency_micros);
      }
      const bool takes_none = is_fifo_ ? end_[op] == start_[op] : costs_.Micros(run.op, run.device) == 0;
      free_[op] = end_[op] + (takes_none ? 0.0 : OfMicros(cluster_.device(run.device).op_gap_micros));
    }
  }

  // Whether an issue lane feeds the op's device.
  bool IsFed(std::size_t op) const { return cluster_.device(DeviceOf(op)).issue.has_value(); }

  // docs/model.md, F16 and F18.
  void FindIssueOrder(const Timeline& timeline) {
    before_issue_.assign(num_ops_, kNone);
    next_issue_.assign(num_ops_, kNone);
    before_room_.assign(num_ops_, kNone);
    // Lanes by the first device of each.
    std::map<std::string_view, std::size_t> named;
    std::vector<std::size_t> lane_of(num_devices_);
    for (std::size_t d = 0; d < num_devices_; ++d) {
      const auto& issue = cluster_.devices()[d].issue;
      lane_of[d] = issue && !issue->lane.empty() ? named.try_emplace(issue->lane, d).first->second : d;
    }
    std::vector<std::uint32_t> last_of_lane(num_devices_, kNone);
    std::vector<std::deque<std::uint32_t>> queued(num_devices_);  // ops that count, at most max_queued
    for (const OpId id : timeline.issued) {
      const auto op = static_cast<std::uint32_t>(Index(id));
      const std::size_t device = Index(DeviceOf(op));
      const IssueLane& lane = *cluster_.devices()[device].issue;
      const std::uint32_t last = std::exchange(last_of_lane[lane_of[device]], op);
      before_issue_[op] = last;
      if (last != kNone) next_issue_[last] = op;
      const bool is_full =
          lane.max_queued > 0 && queued[device].size() == static_cast<std::size_t>(lane.max_queued);  // 0: no limit
      if (is_full) before_room_[op] = queued[device].front();
      if (end_[op] == start_[op]) continue;
      if (before_room_[op] != kNone) queued[device].pop_front();
      queued[device].push_back(op);
    }
  }

  void FindPrecedence() {
    std::vector<std::uint32_t> last_op(num_devices_, kNone);
    channel_last_.assign(num_devices_ * num_devices_, kNone);
    transfer_to_.assign(num_devices_, kNone);
    before_op_.assign(num_ops_, kNone);
    next_op_.assign(num_ops_, kNone);
    before_transfer_.assign(num_ops_, kNone);
    first_edge_.assign(num_ops_, 0);
    num_edges_.assign(num_ops_, 0);
    first_sent_.assign(num_ops_, 0);
    num_sent_.assign(num_ops_, 0);
    for (const std::uint32_t op : order_) {
      const DeviceId device = DeviceOf(op);
      std::uint32_t& last = last_op[Index(device)];
      before_op_[op] = last;
      if (last != kNone) next_op_[last] = op;
      last = op;
      if (!cluster_.device(device).copy_engine) before_transfer_[op] = channel_last_[Channel(device, device)];
      first_edge_[op] = static_cast<std::uint32_t>(edges_.size());
      first_sent_[op] = static_cast<std::uint32_t>(sent_.size());
      is_fifo_ ? SendFifo(op, device) : SendPlaceto(op, device);
      num_edges_[op] = static_cast<std::uint32_t>(edges_.size()) - first_edge_[op];
      num_sent_[op] = static_cast<std::uint32_t>(sent_.size()) - first_sent_[op];
    }
  }

  // docs/model.md, F5, F13 and P10.
  std::size_t Channel(DeviceId from, DeviceId to) const {
    if (cluster_.channels() == Channels::kPerDevice) return Index(from);
    return Index(from) * num_devices_ + Index(cluster_.device(from).copy_engine ? to : from);
  }

  std::uint32_t Send(std::uint32_t op, DeviceId from, DeviceId to, std::optional<TensorId> tensor, double time,
                     double gap) {
    std::uint32_t& last = channel_last_[Channel(from, to)];
    Sent sent{.op = op, .tensor = tensor, .to = to, .before = last};
    sent.start = std::max(end_[op], last == kNone ? 0.0 : sent_[last].free);
    sent.arrival = sent.start + time;
    sent.free = sent.arrival + gap;
    last = static_cast<std::uint32_t>(sent_.size());
    sent_.push_back(sent);
    return last;
  }

  // docs/model.md, F4 to F8.
  void SendFifo(std::uint32_t op, DeviceId from) {
    const OpId id = MakeId<OpId>(op);
    for (std::size_t k = 0; k < graph_.num_outputs(id); ++k) {
      const TensorId tensor = MakeId<TensorId>(Index(graph_.first_output(id)) + k);
      destinations_.clear();
      for (const OpId reader : graph_.consumers(tensor)) {
        if (placement_[reader] != from) destinations_.push_back(placement_[reader]);
      }
      std::sort(destinations_.begin(), destinations_.end());
      destinations_.erase(std::unique(destinations_.begin(), destinations_.end()), destinations_.end());
      for (const DeviceId to : destinations_) {
        const Link& link = cluster_.link(from, to);
        const Duration time = TransferDuration(graph_.tensor(tensor).size, link.rate());
        transfer_to_[Index(to)] =
            Send(op, from, to, tensor,
                 takes_.empty() ? OfMicros(link.latency_micros) + static_cast<double>(time.count())
                                : takes_.at({tensor, to}),
                 OfMicros(link.gap_micros));
      }
      for (const OpId reader : graph_.consumers(tensor)) {
        const DeviceId to = placement_[reader];
        edges_.push_back({op, static_cast<std::uint32_t>(reader), to == from ? kNone : transfer_to_[Index(to)], 0});
      }
    }
    for (const OpId waits : graph_.control_consumers(id)) {
      const DeviceId to = placement_[waits];
      edges_.push_back({op, static_cast<std::uint32_t>(waits), kNone,
                        to == from ? 0.0 : OfMicros(cluster_.link(from, to).latency_micros)});
    }
  }

  // docs/model.md, P9 to P13.
  void SendPlaceto(std::uint32_t op, DeviceId from) {
    const OpId id = MakeId<OpId>(op);
    std::vector<std::pair<std::uint32_t, std::uint32_t>> sent;  // (output index, transfer)
    for (const auto& [child, output] : children_[op]) {
      std::uint32_t transfer = kNone;
      if (placement_[child] != from) {
        const std::uint32_t wanted = output;
        auto found = std::find_if(sent.begin(), sent.end(), [wanted](const auto& s) { return s.first == wanted; });
        if (found == sent.end()) {
          const Link& link = cluster_.link(from, placement_[child]);
          std::optional<TensorId> tensor;
          if (output < graph_.num_outputs(id)) tensor = MakeId<TensorId>(Index(graph_.first_output(id)) + output);
          const double bytes = tensor ? static_cast<double>(graph_.tensor(*tensor).size.count) : 0.0;
          const double time = bytes / (link.bandwidth_gb_per_s * 1000.0);
          sent.emplace_back(output, Send(op, from, placement_[child], tensor, time, link.gap_micros));
          found = sent.end() - 1;
        }
        transfer = found->second;
      }
      edges_.push_back({op, static_cast<std::uint32_t>(child), transfer, 0});
    }
  }

  void SortByChild() {
    first_input_.assign(num_ops_ + 1, 0);
    for (const StepEdge& edge : edges_) ++first_input_[edge.child + 1];
    for (std::size_t i = 0; i < num_ops_; ++i) first_input_[i + 1] += first_input_[i];
    inputs_.resize(edges_.size());
    std::vector<std::uint32_t> next(first_input_.begin(), first_input_.end() - 1);
    for (std::size_t e = 0; e < edges_.size(); ++e) inputs_[next[edges_[e].child]++] = static_cast<std::uint32_t>(e);
  }

  // Whether the child needs the issue of its producer, not its end.
  bool IsByIssue(const StepEdge& edge) const {
    return IsFed(edge.producer) && DeviceOf(edge.producer) == DeviceOf(edge.child);
  }
  double Arrival(const StepEdge& edge) const {
    if (IsByIssue(edge)) return issue_end_[edge.producer];
    return edge.transfer == kNone ? end_[edge.producer] + edge.latency : sent_[edge.transfer].arrival;
  }
  // The edge that an op waited for longest; of several the first. kNone if it has no inputs.
  std::uint32_t LastInput(std::uint32_t op) const {
    std::uint32_t last = kNone;
    for (std::uint32_t k = first_input_[op]; k < first_input_[op + 1]; ++k) {
      if (last == kNone || Arrival(edges_[inputs_[k]]) > Arrival(edges_[last])) last = inputs_[k];
    }
    return last;
  }
  double Ready(std::uint32_t op) const {
    const std::uint32_t last = LastInput(op);
    return last == kNone ? 0.0 : Arrival(edges_[last]);
  }

  double LaneFree(std::uint32_t op) const { return before_issue_[op] == kNone ? 0.0 : issue_end_[before_issue_[op]]; }
  double RoomFree(std::uint32_t op) const { return before_room_[op] == kNone ? 0.0 : end_[before_room_[op]]; }

  // The precedence found is that of the engine: each op starts when the last of what it follows is over.
  void CheckStarts() const {
    for (std::uint32_t op = 0; op < num_ops_; ++op) {
      double start = Ready(op);
      if (IsFed(op)) {
        EMPLACE_CHECK_EQ(std::max({start, LaneFree(op), RoomFree(op)}), issue_start_[op]);
        start = launched_[op];
      }
      if (before_op_[op] != kNone) start = std::max(start, free_[before_op_[op]]);
      if (before_transfer_[op] != kNone) start = std::max(start, sent_[before_transfer_[op]].free);
      EMPLACE_CHECK_EQ(start, start_[op]);
    }
  }

  // docs/model.md, F12 and P22.
  void FindEnd() {
    const std::vector<double>& last = is_fifo_ ? end_ : free_;
    for (std::uint32_t op = 0; op < num_ops_; ++op) {
      if (last_op_ == kNone || last[op] > step_time_) {
        last_op_ = op;
        step_time_ = last[op];
      }
    }
    for (std::uint32_t t = 0; t < sent_.size() && !is_fifo_; ++t) {
      if (sent_[t].free <= step_time_) continue;
      last_transfer_ = t;
      step_time_ = sent_[t].free;
    }
  }

  ChainItem RunItem(std::uint32_t op) const {
    return {.op = MakeId<OpId>(op), .device = DeviceOf(op), .to = DeviceOf(op)};
  }
  ChainItem TransferItem(std::uint32_t transfer) const {
    const Sent& sent = sent_[transfer];
    return {.op = MakeId<OpId>(sent.op),
            .is_transfer = true,
            .tensor = sent.tensor,
            .device = DeviceOf(sent.op),
            .to = sent.to};
  }

  // Where the walk along the chain is, and what waits for it without a need of it.
  struct Position {
    std::uint32_t op = kNone;         // a run, or
    std::uint32_t issue = kNone;      // the issue of an op, or
    std::uint32_t transfer = kNone;   // a transfer
    std::optional<DeviceId> to = {};  // of a transfer that several share
    std::optional<ChainItem> waiter = {};
    double waits_from = 0;
  };

  // From the end of the step to its begin; then turns the chain around.
  void WalkChain(StepExplanation* result) const {
    if (num_ops_ == 0) return;
    std::vector<ChainPart>& chain = result->chain;
    const auto add = [&](ChainKind kind, double begin, double end, const ChainItem& item,
                         const std::optional<ChainItem>& waiter = std::nullopt) {
      if (Nanos(begin) < Nanos(end)) chain.push_back({kind, Nanos(begin), Nanos(end), item, waiter});
    };
    Position at;
    if (last_transfer_ != kNone) {
      at.transfer = last_transfer_;
      add(ChainKind::kGap, sent_[last_transfer_].arrival, step_time_, TransferItem(last_transfer_));
    } else {
      at.op = last_op_;
      add(ChainKind::kGap, end_[last_op_], step_time_, RunItem(last_op_));
    }
    for (;;) {
      if (at.issue != kNone) {
        add(ChainKind::kIssue, issue_start_[at.issue], issue_end_[at.issue], RunItem(at.issue));
        if (issue_start_[at.issue] <= 0) break;
        at = BeforeIssue(at.issue, add);
        continue;
      }
      const bool is_run = at.op != kNone;
      const double start = is_run ? start_[at.op] : sent_[at.transfer].start;
      const double end = is_run ? end_[at.op] : sent_[at.transfer].arrival;
      ChainItem item = is_run ? RunItem(at.op) : TransferItem(at.transfer);
      if (at.to) item.to = *at.to;
      const double needed_until = at.waiter ? std::clamp(at.waits_from, start, end) : end;
      if (at.waiter) {
        const ChainKind queue = at.waiter->is_transfer ? ChainKind::kChannelQueue : ChainKind::kDeviceQueue;
        add(queue, needed_until, end, item, at.waiter);
      }
      add(is_run ? ChainKind::kCompute : ChainKind::kTransfer, start, needed_until, item);
      if (start <= 0) break;
      at = is_run ? BeforeRun(at.op, add) : BeforeTransfer(at.transfer, item, add);
    }
    std::reverse(chain.begin(), chain.end());
  }

  // Of an op that waited for its last input until then.
  template <typename Add>
  Position BeforeInput(const StepEdge& edge, const Add& add) const {
    if (IsByIssue(edge)) return {.issue = edge.producer};
    if (edge.transfer != kNone) return {.transfer = edge.transfer, .to = DeviceOf(edge.child)};
    const ChainItem control{.op = MakeId<OpId>(edge.producer),
                            .is_transfer = true,
                            .device = DeviceOf(edge.producer),
                            .to = DeviceOf(edge.child)};
    add(ChainKind::kTransfer, end_[edge.producer], Arrival(edge), control);
    return {.op = edge.producer};
  }

  template <typename Add>
  Position BeforeIssue(std::uint32_t op, const Add& add) const {
    const double start = issue_start_[op];
    const std::uint32_t last = LastInput(op);
    if (last != kNone && Arrival(edges_[last]) == start) return BeforeInput(edges_[last], add);
    if (before_issue_[op] != kNone && LaneFree(op) == start) return {.issue = before_issue_[op]};
    EMPLACE_CHECK(before_room_[op] != kNone);
    return {.op = before_room_[op], .waiter = RunItem(op), .waits_from = std::max(Ready(op), LaneFree(op))};
  }

  template <typename Add>
  Position BeforeRun(std::uint32_t op, const Add& add) const {
    const double start = start_[op];
    const bool is_fed = IsFed(op);
    const std::uint32_t last = LastInput(op);
    if (is_fed && launched_[op] == start) {
      add(ChainKind::kLaunch, issue_end_[op], start, RunItem(op));
      return {.issue = op};
    }
    if (!is_fed && last != kNone && Arrival(edges_[last]) == start) return BeforeInput(edges_[last], add);
    Position before{.waiter = RunItem(op), .waits_from = is_fed ? launched_[op] : Ready(op)};
    if (before_op_[op] != kNone && free_[before_op_[op]] == start) {
      before.op = before_op_[op];
      add(ChainKind::kGap, end_[before.op], start, RunItem(before.op));
    } else {
      before.transfer = before_transfer_[op];
      EMPLACE_CHECK(before.transfer != kNone);
      add(ChainKind::kGap, sent_[before.transfer].arrival, start, TransferItem(before.transfer));
    }
    return before;
  }

  template <typename Add>
  Position BeforeTransfer(std::uint32_t transfer, const ChainItem& item, const Add& add) const {
    const Sent& sent = sent_[transfer];
    if (sent.start == end_[sent.op]) return {.op = sent.op};
    EMPLACE_CHECK(sent.before != kNone);
    add(ChainKind::kGap, sent_[sent.before].arrival, sent.start, TransferItem(sent.before));
    return {.transfer = sent.before, .waiter = item, .waits_from = end_[sent.op]};
  }

  // Each op after its producers and after the op before it on its device.
  std::vector<std::uint32_t> TopologicalRuns() const {
    std::vector<std::uint32_t> waits(num_ops_, 0);
    for (std::uint32_t op = 0; op < num_ops_; ++op) {
      waits[op] = first_input_[op + 1] - first_input_[op] + (before_op_[op] == kNone ? 0 : 1) +
                  (before_issue_[op] == kNone ? 0 : 1);
    }
    std::vector<std::uint32_t> sorted;
    sorted.reserve(num_ops_);
    for (std::uint32_t op = 0; op < num_ops_; ++op) {
      if (waits[op] == 0) sorted.push_back(op);
    }
    const auto release = [&](std::uint32_t op) {
      if (--waits[op] == 0) sorted.push_back(op);
    };
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      const std::uint32_t op = sorted[i];
      for (std::uint32_t e = 0; e < num_edges_[op]; ++e) release(edges_[first_edge_[op] + e].child);
      if (next_op_[op] != kNone) release(next_op_[op]);
      if (next_issue_[op] != kNone) release(next_issue_[op]);
    }
    EMPLACE_CHECK_EQ(sorted.size(), num_ops_);
    return sorted;
  }

  // The latest end of each op: the longest path backwards over the precedence.
  void FindSlack(StepExplanation* result) {
    std::vector<double> latest(num_ops_);
    for (std::size_t i = 0; i < num_ops_; ++i) latest[i] = is_fifo_ ? step_time_ : step_time_ - (free_[i] - end_[i]);
    if (!is_fifo_) {
      for (Sent& sent : sent_) sent.latest = step_time_ - (sent.free - sent.arrival);
    }
    const auto latest_start = [&](std::uint32_t op) { return latest[op] - (end_[op] - start_[op]); };
    std::vector<double> latest_issue(num_ops_, std::numeric_limits<double>::infinity());  // its start
    const auto latest_ready = [&](std::uint32_t op) { return IsFed(op) ? latest_issue[op] : latest_start(op); };
    // A transfer's channel, or its device, must be free by then.
    const auto free_by = [&](std::uint32_t transfer, double when) {
      if (transfer == kNone) return;
      Sent& sent = sent_[transfer];
      sent.latest = std::min(sent.latest, when - (sent.free - sent.arrival));
    };
    const std::vector<std::uint32_t> sorted = TopologicalRuns();
    result->slack.resize(num_ops_);
    for (std::size_t i = sorted.size(); i-- > 0;) {
      const std::uint32_t op = sorted[i];
      double& mine = latest[op];
      if (next_op_[op] != kNone) mine = std::min(mine, latest_start(next_op_[op]) - (free_[op] - end_[op]));
      for (std::uint32_t e = 0; e < num_edges_[op]; ++e) {
        const StepEdge& edge = edges_[first_edge_[op] + e];
        double& limit = edge.transfer == kNone ? mine : sent_[edge.transfer].latest;
        if (!IsByIssue(edge)) limit = std::min(limit, latest_ready(edge.child) - edge.latency);
      }
      for (std::uint32_t t = first_sent_[op] + num_sent_[op]; t-- > first_sent_[op];) {
        const double begin = sent_[t].latest - (sent_[t].arrival - sent_[t].start);
        mine = std::min(mine, begin);
        free_by(sent_[t].before, begin);
      }
      free_by(before_transfer_[op], latest_start(op));
      if (IsFed(op)) {
        double issued_by = latest_start(op) - (launched_[op] - issue_end_[op]);
        if (next_issue_[op] != kNone) issued_by = std::min(issued_by, latest_issue[next_issue_[op]]);
        for (std::uint32_t e = 0; e < num_edges_[op]; ++e) {
          const StepEdge& edge = edges_[first_edge_[op] + e];
          if (IsByIssue(edge)) issued_by = std::min(issued_by, latest_issue[edge.child]);
        }
        latest_issue[op] = issued_by - (issue_end_[op] - issue_start_[op]);
        if (before_room_[op] != kNone) latest[before_room_[op]] = std::min(latest[before_room_[op]], latest_issue[op]);
      }
      result->slack[op] = std::max(Duration(0), Nanos(mine - end_[op]));
    }
  }

  void FindDeviceUse(StepExplanation* result) const {
    result->devices.resize(num_devices_);
    std::vector<double> until(num_devices_, 0);  // accounted for
    const auto span = [&](double begin, double end) { return Nanos(std::max(begin, end)) - Nanos(begin); };
    for (const std::uint32_t op : order_) {
      const std::size_t device = Index(DeviceOf(op));
      DeviceUse& use = result->devices[device];
      double at = until[device];
      if (before_transfer_[op] != kNone) {
        const double sends_until = std::clamp(sent_[before_transfer_[op]].free, at, start_[op]);
        use.sending += span(at, sends_until);
        at = sends_until;
      }
      if (at < start_[op]) {
        const bool is_fed = IsFed(op);
        const std::uint32_t last = LastInput(op);
        const double ready = is_fed ? std::clamp(Ready(op), at, start_[op]) : start_[op];
        if (last != kNone && !IsByIssue(edges_[last])) {
          const double exists = std::clamp(end_[edges_[last].producer], at, ready);
          use.waiting_for_ops += span(at, exists);
          use.waiting_for_transfers += span(exists, ready);
          at = ready;
        }
        if (is_fed) use.waiting_for_issue += span(at, start_[op]);
      }
      const double free = std::min(free_[op], step_time_);
      use.busy += span(start_[op], end_[op]);
      use.gap += span(end_[op], free);
      until[device] = std::max(end_[op], free);
    }
    for (std::size_t d = 0; d < num_devices_; ++d) result->devices[d].idle = span(until[d], step_time_);
    for (const ChainPart& part : result->chain) {
      const bool on_device = part.kind == ChainKind::kDeviceQueue || !part.item.is_transfer;
      if (on_device) result->devices[Index(part.item.device)].on_chain += part.length();
    }
  }

  const Graph& graph_;
  const Cluster& cluster_;
  const CostTable& costs_;
  const Placement& placement_;
  const bool is_fifo_;
  const std::size_t num_ops_;
  const std::size_t num_devices_;
  std::vector<double> start_, end_, free_;       // [num_ops]; free_: of the device, without its own transfers
  std::vector<double> issue_start_, issue_end_;  // [num_ops]; of ops on devices that are fed
  std::vector<double> launched_;                 // [num_ops]: the issue's end and the launch latency
  std::vector<std::uint32_t> before_issue_;      // [num_ops]: what the op's lane issued before it
  std::vector<std::uint32_t> next_issue_;        // [num_ops]
  std::vector<std::uint32_t> before_room_;       // [num_ops]: whose end made room in the queue (F18)
  std::vector<std::uint32_t> order_;             // ops as they ran, exact for those of one device
  std::vector<std::uint32_t> before_op_;         // [num_ops]: the op before it on its device
  std::vector<std::uint32_t> next_op_;           // [num_ops]
  std::vector<std::uint32_t> before_transfer_;   // [num_ops]: the transfer that its device had to finish (F13)
  std::vector<Sent> sent_;                       // by producer, in the order of order_
  std::vector<StepEdge> edges_;                  // by producer
  std::vector<std::uint32_t> first_edge_, num_edges_, first_sent_, num_sent_;  // [num_ops]
  std::vector<std::uint32_t> first_input_;                                     // [num_ops + 1], of inputs_
  std::vector<std::uint32_t> inputs_;                                          // edges by child
  std::vector<std::vector<PlacetoChild>> children_;
  std::vector<std::uint32_t> channel_last_;                // by Channel()
  std::vector<std::uint32_t> transfer_to_;                 // [num_devices], scratch
  std::map<std::pair<TensorId, DeviceId>, double> takes_;  // of flow: from the start of a transfer to its arrival
  std::vector<DeviceId> destinations_;                     // scratch
  std::uint32_t last_op_ = kNone;
  std::uint32_t last_transfer_ = kNone;  // if the step ends with a transfer
  double step_time_ = 0;
};

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
  return Step(graph, cluster, costs, placement, options, timeline).Explain();
}

}  // namespace emplace
