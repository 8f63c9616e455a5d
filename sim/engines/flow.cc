#include "sim/engines/flow.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <queue>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/base/check.h"
#include "sim/base/units.h"
#include "sim/network/collective_flows.h"
#include "sim/network/collective_times.h"
#include "sim/network/flow_network.h"

namespace emplace {
namespace flow {
namespace {

template <typename T>
using MinHeap = std::priority_queue<T, std::vector<T>, std::greater<>>;

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();

// What does not depend on the placement.
struct Problem {
  Problem(const Graph& graph_in, const Cluster& cluster_in, const CostTable& costs_in)
      : graph(graph_in),
        cluster(cluster_in),
        costs(costs_in),
        inputs_left(graph.num_ops()),
        collective_times(cluster_in) {
    for (std::size_t t = 0; t < graph.num_tensors(); ++t) {
      for (const OpId reader : graph.consumers(MakeId<TensorId>(t))) ++inputs_left[Index(reader)];
    }
    for (std::size_t i = 0; i < graph.num_ops(); ++i) {
      for (const OpId waits : graph.control_consumers(MakeId<OpId>(i))) ++inputs_left[Index(waits)];
    }
    if (cluster.has_issue_lanes()) FindLanes();
    for (const Topology::Link& link : cluster.topology().links()) {
      bytes_per_ns.push_back(static_cast<double>(RateFromGbPerS(link.bandwidth_gb_per_s).count) / 1e9);
    }
  }

  std::int64_t Gap(std::size_t device) const {
    return DurationFromMicros(cluster.devices()[device].op_gap_micros).count();
  }
  bool CopiesByItself(std::size_t device) const { return !cluster.devices()[device].copy_engine; }

  bool IsFed(std::size_t device) const { return !lane.empty() && lane[device] != kNone; }
  // docs/model.md, F15.
  std::int64_t HostTime(OpId op, std::size_t device) const {
    const double own = costs.HostMicros(op, costs.KindIndex(MakeId<DeviceId>(device)));
    return DurationFromMicros(std::isnan(own) ? cluster.devices()[device].issue->host_micros : own).count();
  }

  Graph graph;
  Cluster cluster;
  CostTable costs;
  std::vector<std::uint32_t> inputs_left;          // tensors and control inputs that each op waits for
  std::vector<double> bytes_per_ns;                // of each link of the topology
  std::vector<std::uint32_t> lane;                 // of each device; kNone: it is not fed. Empty if none is
  std::vector<std::vector<std::uint32_t>> fed_by;  // the devices of each lane
  CollectiveTimes collective_times;

 private:
  // Members of a collective are processes of their own, and so are their lanes (docs/model.md, K14).
  void FindLanes() {
    std::map<std::string, std::uint32_t> named;
    const bool has_ranks = graph.has_ranks();
    for (const Device& device : cluster.devices()) {
      const auto number = static_cast<std::uint32_t>(lane.size());
      lane.push_back(kNone);
      if (!device.issue) continue;
      if (!device.copy_engine) {
        throw InputError("cluster " + cluster.name(),
                         fmt::format("device {} has an issue lane and no copy engine, which engine flow and graphs "
                                     "with collectives do not support (one of them)",
                                     device.name));
      }
      const bool is_shared = !device.issue->lane.empty() && !has_ranks;
      const auto next = static_cast<std::uint32_t>(fed_by.size());
      lane.back() = is_shared ? named.try_emplace(device.issue->lane, next).first->second : next;
      if (lane.back() == next) fed_by.emplace_back();
      fed_by[lane.back()].push_back(number);
    }
  }
};

struct Event {
  enum class Kind {
    kOpEnds,
    kDeviceIsFree,
    kIssued,
    kControlArrives,
    kFlowStarts,
    kTransferArrives,
    kChannelIsFree,
    kCollectiveEnds,
    kPartsBegin,
    kPartStarts,
    kPartArrives
  };
  std::int64_t time = 0;
  std::uint64_t serial = 0;
  Kind kind{};
  std::uint32_t what = 0;  // op, device, op, op, transfer, transfer, channel, collective, collective, part, part
  friend bool operator>(const Event& a, const Event& b) {
    return std::pair(a.time, a.serial) > std::pair(b.time, b.serial);
  }
};

struct DeviceState {
  MinHeap<std::pair<std::int64_t, OpId>> ready;  // (ready time, op): docs/model.md, F10
  std::int64_t free_at = 0;
  std::int64_t op_ends = 0;
  bool is_asked = false;    // whether it can start an op: Run::ask_
  bool takes_part = false;  // in a collective
  // Of one that is fed: docs/model.md, F16 to F18. Then free_at is when its stream is free.
  std::int64_t may_issue_at = 0;
  std::vector<std::int64_t> queued_until = {};  // a ring of the ends of the last ops
  std::size_t oldest = 0;
};

// There may be a channel for each pair of 1,024 devices: no queue of its own, but the transfers lead to the next ones.
struct ChannelState {
  std::uint32_t first = kNone;  // of the transfers that wait
  std::uint32_t last = kNone;
  bool is_busy = false;  // with the one before, or pausing behind it
};

struct TransferState {
  TensorId tensor{};
  DeviceId from{};
  DeviceId to{};
  std::int64_t start = 0;
  std::int64_t arrival = 0;
  std::uint32_t readers_left = 0;
  std::uint32_t next = kNone;  // that waits for the same channel
};

struct CollectiveState {
  std::size_t missing = 0;        // members that have not arrived
  std::vector<DeviceId> devices;  // ascending, distinct; of a pair the sender, then the receiver
  std::uint32_t parts_left = 0;   // that have not arrived, once they have begun
};

// One flow of a collective that is expanded.
struct PartState {
  std::uint32_t collective = 0;
  DeviceId from{};
  DeviceId to{};
  Bytes size;
  std::uint32_t waits = 0;
  std::vector<std::uint32_t> next = {};  // parts that wait for it
};

struct TensorState {
  std::uint32_t holders = 0;  // readers at home that have not ended, and transfers that have not arrived
  std::uint32_t first_transfer = 0;
  std::uint32_t num_transfers = 0;
};

struct MemoryChange {
  std::uint32_t device = 0;
  std::int64_t time = 0;
  std::int64_t bytes = 0;
};

// One run.
class Run {
 public:
  struct Choice {
    bool counts_memory = false;
    bool shares_links = false;  // that there is a topology
    std::optional<CollectiveAlgorithm> expand = {};
  };
  Run(const Problem& problem, FlowNetwork* network, std::span<const DeviceId> placement, const Choice& choice)
      : problem_(problem),
        graph_(problem.graph),
        cluster_(problem.cluster),
        network_(*network),
        placement_(placement),
        counts_memory_(choice.counts_memory),
        shares_links_(choice.shares_links),
        expand_(choice.expand),
        one_for_each_(cluster_.channels() == Channels::kPerPair),
        inputs_left_(problem.inputs_left),
        start_(graph_.num_ops()),
        end_(graph_.num_ops()),
        tensors_(graph_.num_tensors()),
        devices_(cluster_.num_devices()),
        channels_(cluster_.num_devices() * (one_for_each_ ? cluster_.num_devices() : 1)) {
    for (const Collective& collective : graph_.collectives()) {
      collectives_.push_back({.missing = collective.members.size(), .devices = DevicesOf(collective, placement_)});
    }
    if (!collectives_.empty()) blocked_on_.resize(devices_.size());
    if (problem_.lane.empty()) return;
    lane_free_.resize(problem_.fed_by.size());
    issue_start_.resize(graph_.num_ops());
    issue_end_.resize(graph_.num_ops());
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      if (!problem_.IsFed(d)) continue;
      const auto most = static_cast<std::uint64_t>(cluster_.devices()[d].issue->max_queued);
      devices_[d].queued_until.resize(most < graph_.num_ops() ? static_cast<std::size_t>(most) : 0);
    }
  }

  void Simulate() {
    network_.Clear();
    for (std::size_t i = 0; i < graph_.num_ops(); ++i) {
      if (inputs_left_[i] == 0) IsReady(MakeId<OpId>(i));
    }
    while (true) {
      if (!events_.empty() && events_.top().time == now_) {
        const Event event = events_.top();
        events_.pop();
        Handle(event);
        continue;
      }
      const std::optional<std::int64_t> flow_ends = network_.NextEnd();
      if (flow_ends == now_) {
        const FlowOwner owner = owner_of_flow_[network_.End()];
        if (owner.is_part) {
          PartArrives(owner.index);
        } else {
          Arrive(owner.index);
        }
        continue;
      }
      if (!may_start_.empty()) {
        const std::uint32_t collective = may_start_.top();
        may_start_.pop();
        TryCollective(collective);
        continue;
      }
      // Everything that happens now has happened: ops start, by device (F11).
      if (!ask_.empty()) {
        const std::uint32_t device = ask_.top();
        ask_.pop();
        devices_[device].is_asked = false;
        StartOn(device);
        continue;
      }
      if (events_.empty() && !flow_ends) break;
      now_ = events_.empty() ? *flow_ends : std::min(events_.top().time, flow_ends.value_or(events_.top().time));
    }
    if (counts_memory_) SortChanges();
  }

  std::int64_t step_time() const { return step_time_; }
  const std::vector<std::int64_t>& start() const { return start_; }

  void TellPeaks(StepResult* result) const {
    const std::size_t n = devices_.size();
    result->peak_memory.assign(n, Bytes{});
    ForEachMemory([&](std::uint32_t device, std::int64_t, std::int64_t in_use) {
      result->peak_memory[device] = std::max(result->peak_memory[device], Bytes{in_use});
    });
    for (std::size_t d = 0; d < n; ++d) {
      const std::optional<Bytes>& capacity = cluster_.devices()[d].memory;
      if (capacity && result->peak_memory[d] > *capacity) result->fits_memory = false;
    }
  }

  void Tell(Timeline* timeline) const {
    const auto micros = [](std::int64_t time) { return MicrosFromDuration(Duration(time)); };
    timeline->ops.clear();
    timeline->issued.clear();
    timeline->transfers.clear();
    timeline->memory.clear();
    for (const OpId op : order_) {
      timeline->ops.push_back({.op = op,
                               .device = placement_[Index(op)],
                               .start_micros = micros(start_[Index(op)]),
                               .end_micros = micros(end_[Index(op)])});
      if (!WasIssued(op)) continue;
      timeline->issued.push_back(op);
      timeline->ops.back().issue_start_micros = micros(issue_start_[Index(op)]);
      timeline->ops.back().issue_end_micros = micros(issue_end_[Index(op)]);
    }
    // Those that start together come by device, as fifo tells them.
    std::stable_sort(timeline->ops.begin(), timeline->ops.end(), [](const auto& a, const auto& b) {
      return std::pair(a.start_micros, a.device) < std::pair(b.start_micros, b.device);
    });
    for (const TransferState& transfer : transfers_) {
      timeline->transfers.push_back(
          {transfer.tensor, transfer.from, transfer.to, micros(transfer.start), micros(transfer.arrival)});
    }
    if (!counts_memory_) return;
    ForEachMemory([&](std::uint32_t device, std::int64_t time, std::int64_t in_use) {
      timeline->memory.push_back({MakeId<DeviceId>(device), micros(time), Bytes{in_use}});
    });
  }

 private:
  void Push(std::int64_t time, Event::Kind kind, std::size_t what) {
    events_.push({.time = time, .serial = next_serial_++, .kind = kind, .what = static_cast<std::uint32_t>(what)});
  }

  void Handle(const Event& event) {
    switch (event.kind) {
      case Event::Kind::kOpEnds:
        return End(MakeId<OpId>(event.what));
      case Event::Kind::kDeviceIsFree:
        return Ask(event.what);
      case Event::Kind::kIssued:
        return EndIssue(MakeId<OpId>(event.what));
      case Event::Kind::kControlArrives:
        return Has(MakeId<OpId>(event.what));
      case Event::Kind::kFlowStarts:
        return StartTransfer(event.what);
      case Event::Kind::kTransferArrives:
        return Arrive(event.what);
      case Event::Kind::kChannelIsFree:
        return Free(event.what);
      case Event::Kind::kCollectiveEnds:
        return EndCollective(event.what);
      case Event::Kind::kPartsBegin:
        return BeginParts(event.what);
      case Event::Kind::kPartStarts:
        return StartPart(event.what);
      case Event::Kind::kPartArrives:
        return PartArrives(event.what);
    }
  }

  std::uint32_t DeviceOf(OpId op) const { return static_cast<std::uint32_t>(Index(placement_[Index(op)])); }

  void Ask(std::uint32_t device) {
    if (devices_[device].is_asked) return;
    devices_[device].is_asked = true;
    ask_.push(device);
  }

  // One of what the op waits for is there.
  void Has(OpId op) {
    if (--inputs_left_[Index(op)] == 0) IsReady(op);
  }
  void IsReady(OpId op) {
    if (const std::optional<std::size_t> collective = problem_.graph.CollectiveOf(op)) {
      if (--collectives_[*collective].missing == 0) may_start_.push(static_cast<std::uint32_t>(*collective));
      return;
    }
    devices_[DeviceOf(op)].ready.emplace(now_, op);
    Ask(DeviceOf(op));
  }

  // docs/model.md, K2 to K4.
  void TryCollective(std::uint32_t index) {
    const CollectiveState& state = collectives_[index];
    for (const DeviceId device : state.devices) {
      if (devices_[Index(device)].takes_part) return blocked_on_[Index(device)].push_back(index);
    }
    const Collective& collective = graph_.collectives()[index];
    for (const DeviceId device : state.devices) devices_[Index(device)].takes_part = true;
    for (const OpId op : collective.members) {
      const std::uint32_t device = DeviceOf(op);
      start_[Index(op)] = now_;
      order_.push_back(op);
      Log(device, now_, graph_.op(op).temp.count);
      for (std::size_t k = 0; k < graph_.num_outputs(op); ++k) Log(device, now_, SizeOf(Output(op, k)));
    }
    const std::optional<double> given = GivenMicros(collective, placement_, graph_, cluster_);
    if (given || !expand_ || state.devices.size() == 1) {
      const Duration time =
          given ? DurationFromMicros(*given)
                : problem_.collective_times.Of(collective.kind, collective.size, state.devices).duration;
      return Push(now_ + time.count(), Event::Kind::kCollectiveEnds, index);
    }
    const double fixed = problem_.collective_times.FixedMicros(collective.size);
    Push(now_ + DurationFromMicros(fixed).count(), Event::Kind::kPartsBegin, index);
  }

  void EndCollective(std::uint32_t index) {
    for (const OpId op : graph_.collectives()[index].members) {
      end_[Index(op)] = now_;
      step_time_ = std::max(step_time_, now_);
      Log(DeviceOf(op), now_, -graph_.op(op).temp.count);
      End(op);
    }
    for (const DeviceId device : collectives_[index].devices) {
      devices_[Index(device)].takes_part = false;
      for (const std::uint32_t blocked : blocked_on_[Index(device)]) may_start_.push(blocked);
      blocked_on_[Index(device)].clear();
    }
  }

  // docs/model.md, K13.
  void BeginParts(std::uint32_t index) {
    const Collective& collective = graph_.collectives()[index];
    CollectiveState& state = collectives_[index];
    std::vector<CollectiveFlow> flows =
        CollectiveFlows(collective.kind, collective.size, state.devices.size(), *expand_);
    const auto has_link = [&](const CollectiveFlow& flow) {
      return cluster_.link(state.devices[flow.from], state.devices[flow.to]).exists();
    };
    if (!std::all_of(flows.begin(), flows.end(), has_link)) {
      flows = CollectiveFlows(collective.kind, collective.size, state.devices.size(), CollectiveAlgorithm::kRing);
    }
    state.parts_left = static_cast<std::uint32_t>(flows.size());
    std::vector<std::uint32_t> place;  // in parts_, of each flow
    for (const CollectiveFlow& flow : flows) {
      if (free_parts_.empty()) {
        place.push_back(static_cast<std::uint32_t>(parts_.size()));
        parts_.emplace_back();
      } else {
        place.push_back(free_parts_.back());
        free_parts_.pop_back();
      }
      for (const std::uint32_t before : flow.after) parts_[place[before]].next.push_back(place.back());
      parts_[place.back()] = {.collective = index,
                              .from = state.devices[flow.from],
                              .to = state.devices[flow.to],
                              .size = flow.size,
                              .waits = static_cast<std::uint32_t>(flow.after.size())};
    }
    for (std::size_t i = 0; i < flows.size(); ++i) {
      if (flows[i].after.empty()) BeginPart(place[i]);
    }
  }

  void BeginPart(std::uint32_t index) {
    const PartState& part = parts_[index];
    const Link& link = cluster_.link(part.from, part.to);
    const std::int64_t latency = DurationFromMicros(link.latency_micros).count();
    if (!shares_links_) {
      return Push(now_ + latency + TransferDuration(part.size, link.rate()).count(), Event::Kind::kPartArrives, index);
    }
    Push(now_ + latency, Event::Kind::kPartStarts, index);
  }

  void StartPart(std::uint32_t index) {
    StartFlow(parts_[index].from, parts_[index].to, parts_[index].size, {.index = index, .is_part = true});
  }

  void PartArrives(std::uint32_t index) {
    const std::uint32_t collective = parts_[index].collective;
    const std::vector<std::uint32_t> next = std::move(parts_[index].next);
    free_parts_.push_back(index);
    for (const std::uint32_t part : next) {
      if (--parts_[part].waits == 0) BeginPart(part);
    }
    if (--collectives_[collective].parts_left == 0) EndCollective(collective);
  }

  bool IsCollective(OpId op) const { return graph_.CollectiveOf(op).has_value(); }
  bool WasIssued(OpId op) const { return problem_.IsFed(DeviceOf(op)) && !IsCollective(op); }

  // docs/model.md, F15 to F18.
  void IssueOn(std::uint32_t device) {
    DeviceState& state = devices_[device];
    std::int64_t& lane_free = lane_free_[problem_.lane[device]];
    if (state.ready.empty() || lane_free > now_ || state.may_issue_at > now_) return;
    const OpId op = state.ready.top().second;
    state.ready.pop();
    lane_free = now_ + problem_.HostTime(op, device);
    issue_start_[Index(op)] = now_;
    issue_end_[Index(op)] = lane_free;
    const std::size_t kind = problem_.costs.KindIndex(MakeId<DeviceId>(device));
    const bool launches = DurationFromMicros(problem_.costs.KindMicros(op, kind)).count() != 0;
    const double latency = launches ? cluster_.devices()[device].issue->launch_latency_micros : 0;
    const std::int64_t start = std::max(state.free_at, lane_free + DurationFromMicros(latency).count());
    PutOn(op, device, start, TimeOf(op, device, start));
    if (!state.queued_until.empty()) {
      if (launches) {
        state.queued_until[state.oldest] = state.op_ends;
        state.oldest = state.oldest + 1 == state.queued_until.size() ? 0 : state.oldest + 1;
      }
      state.may_issue_at = state.queued_until[state.oldest];
      if (state.may_issue_at > lane_free) Push(state.may_issue_at, Event::Kind::kDeviceIsFree, device);
    }
    Push(lane_free, Event::Kind::kIssued, Index(op));
  }

  // Ops behind it in the lane need no more than its issue.
  void EndIssue(OpId op) {
    const std::uint32_t device = DeviceOf(op);
    for (std::size_t k = 0; k < graph_.num_outputs(op); ++k) {
      for (const OpId reader : graph_.consumers(Output(op, k))) {
        if (DeviceOf(reader) == device && !IsCollective(reader)) Has(reader);
      }
    }
    for (const OpId waits : graph_.control_consumers(op)) {
      if (DeviceOf(waits) == device && !IsCollective(waits)) Has(waits);
    }
    for (const std::uint32_t fed : problem_.fed_by[problem_.lane[device]]) Ask(fed);
  }

  // Whether the end of the op is what `reader`, on the same device, waits for.
  bool WaitsForEnd(OpId op, OpId reader) const {
    return problem_.lane.empty() || !WasIssued(op) || IsCollective(reader);
  }

  void StartOn(std::uint32_t device) {
    if (problem_.IsFed(device)) return IssueOn(device);
    DeviceState& state = devices_[device];
    if (state.ready.empty() || state.free_at > now_) return;
    if (problem_.CopiesByItself(device) && ChannelOf(device, 0).is_busy) return;
    const OpId op = state.ready.top().second;
    state.ready.pop();
    PutOn(op, device, now_, TimeOf(op, device, now_));
    if (state.free_at > state.op_ends) Push(state.free_at, Event::Kind::kDeviceIsFree, device);
  }

  void PutOn(OpId op, std::uint32_t device, std::int64_t start, std::int64_t time) {
    DeviceState& state = devices_[device];
    start_[Index(op)] = start;
    end_[Index(op)] = start + time;
    order_.push_back(op);
    state.op_ends = end_[Index(op)];
    state.free_at = state.op_ends + (time == 0 ? 0 : problem_.Gap(device));
    step_time_ = std::max(step_time_, state.op_ends);
    Push(state.op_ends, Event::Kind::kOpEnds, Index(op));
    Log(device, start, graph_.op(op).temp.count);
    Log(device, state.op_ends, -graph_.op(op).temp.count);
    for (std::size_t k = 0; k < graph_.num_outputs(op); ++k) Log(device, start, SizeOf(Output(op, k)));
  }

  // docs/model.md, F14.
  std::int64_t TimeOf(OpId op, std::uint32_t device, std::int64_t start) const {
    const std::size_t kind = problem_.costs.KindIndex(MakeId<DeviceId>(device));
    const std::int64_t alone = DurationFromMicros(problem_.costs.KindMicros(op, kind)).count();
    const double factor = problem_.costs.KindContention(op, kind);
    if (factor == 1) return alone;
    for (std::size_t other = 0; other < devices_.size(); ++other) {
      if (other == device || devices_[other].op_ends <= start) continue;
      if (problem_.costs.KindIndex(MakeId<DeviceId>(other)) != kind) continue;
      return RoundToInteger(static_cast<double>(alone) * factor);
    }
    return alone;
  }

  TensorId Output(OpId op, std::size_t k) const { return MakeId<TensorId>(Index(graph_.first_output(op)) + k); }
  std::int64_t SizeOf(TensorId tensor) const { return graph_.tensor(tensor).size.count; }

  void End(OpId op) {
    const std::uint32_t device = DeviceOf(op);
    for (std::size_t k = 0; k < graph_.num_outputs(op); ++k) Send(Output(op, k), device);
    for (const OpId waits : graph_.control_consumers(op)) {
      const DeviceId to = placement_[Index(waits)];
      if (Index(to) == device) {
        if (WaitsForEnd(op, waits)) Has(waits);
      } else {
        const Link& link = cluster_.link(MakeId<DeviceId>(device), to);
        Push(now_ + DurationFromMicros(link.latency_micros).count(), Event::Kind::kControlArrives, Index(waits));
      }
    }
    HasRead(op, device);
    Ask(device);
  }

  // docs/model.md, F4 to F6.
  void Send(TensorId tensor, std::uint32_t device) {
    destinations_.clear();
    TensorState& state = tensors_[Index(tensor)];
    state.first_transfer = static_cast<std::uint32_t>(transfers_.size());
    for (const OpId reader : graph_.consumers(tensor)) {
      if (DeviceOf(reader) == device) {
        ++state.holders;
        if (WaitsForEnd(graph_.tensor(tensor).producer, reader)) Has(reader);
      } else {
        destinations_.push_back(DeviceOf(reader));
      }
    }
    std::sort(destinations_.begin(), destinations_.end());
    for (std::size_t i = 0; i < destinations_.size(); ++i) {
      if (i == 0 || destinations_[i] != destinations_[i - 1]) {
        transfers_.push_back(
            {.tensor = tensor, .from = MakeId<DeviceId>(device), .to = MakeId<DeviceId>(destinations_[i])});
      }
      ++transfers_.back().readers_left;
    }
    state.num_transfers = static_cast<std::uint32_t>(transfers_.size()) - state.first_transfer;
    state.holders += state.num_transfers;
    if (state.holders == 0) Log(device, now_, -SizeOf(tensor));
    for (std::uint32_t i = 0; i < state.num_transfers; ++i) {
      const std::uint32_t transfer = state.first_transfer + i;
      ChannelState& channel = ChannelOf(device, Index(transfers_[transfer].to));
      (channel.first == kNone ? channel.first : transfers_[channel.last].next) = transfer;
      channel.last = transfer;
      if (!channel.is_busy) BeginNext(&channel);
    }
  }

  // A device that copies by itself has one channel (F13).
  std::size_t ChannelIndex(std::size_t from, std::size_t to) const {
    if (!one_for_each_) return from;
    return from * devices_.size() + (problem_.CopiesByItself(from) ? 0 : to);
  }
  ChannelState& ChannelOf(std::size_t from, std::size_t to) { return channels_[ChannelIndex(from, to)]; }

  void BeginNext(ChannelState* channel) {
    const std::uint32_t index = channel->first;
    TransferState& transfer = transfers_[index];
    channel->first = transfer.next;
    channel->is_busy = true;
    transfer.start = now_;
    Log(static_cast<std::uint32_t>(Index(transfer.to)), now_, SizeOf(transfer.tensor));
    const Link& link = cluster_.link(transfer.from, transfer.to);
    const std::int64_t latency = DurationFromMicros(link.latency_micros).count();
    if (!shares_links_) {
      const std::int64_t takes = TransferDuration(Bytes{SizeOf(transfer.tensor)}, link.rate()).count();
      Push(now_ + latency + takes, Event::Kind::kTransferArrives, index);
    } else if (latency > 0) {
      Push(now_ + latency, Event::Kind::kFlowStarts, index);
    } else {
      StartTransfer(index);
    }
  }

  void StartTransfer(std::uint32_t index) {
    const TransferState& transfer = transfers_[index];
    StartFlow(transfer.from, transfer.to, Bytes{SizeOf(transfer.tensor)}, {.index = index, .is_part = false});
  }

  struct FlowOwner {
    std::uint32_t index = 0;  // of transfers_, or of parts_
    bool is_part = false;
  };

  void StartFlow(DeviceId from, DeviceId to, Bytes size, FlowOwner owner) {
    const std::int64_t alone = TransferDuration(size, cluster_.link(from, to).rate()).count();
    const auto route = cluster_.topology().Route(Index(from), Index(to));
    const FlowNetwork::Flow flow = network_.Start(now_, route, size.count, alone);
    if (flow >= owner_of_flow_.size()) owner_of_flow_.resize(flow + 1);
    owner_of_flow_[flow] = owner;
  }

  void Arrive(std::uint32_t index) {
    TransferState& transfer = transfers_[index];
    transfer.arrival = now_;
    const TensorId tensor = transfer.tensor;
    const DeviceId from = transfer.from;
    const DeviceId to = transfer.to;
    for (const OpId reader : graph_.consumers(tensor)) {
      if (placement_[Index(reader)] == to) Has(reader);
    }
    Release(tensor, static_cast<std::uint32_t>(Index(from)));
    const std::size_t channel = ChannelIndex(Index(from), Index(to));
    const std::int64_t gap = DurationFromMicros(cluster_.link(from, to).gap_micros).count();
    if (gap > 0) {
      Push(now_ + gap, Event::Kind::kChannelIsFree, channel);
    } else {
      Free(static_cast<std::uint32_t>(channel));
    }
  }

  void Free(std::uint32_t channel) {
    channels_[channel].is_busy = false;
    if (channels_[channel].first != kNone) return BeginNext(&channels_[channel]);
    const auto device = static_cast<std::uint32_t>(one_for_each_ ? channel / devices_.size() : channel);
    if (problem_.CopiesByItself(device)) Ask(device);
  }

  // The op has ended: what it read may be freed.
  void HasRead(OpId op, std::uint32_t device) {
    if (!counts_memory_) return;
    read_.assign(graph_.inputs(op).begin(), graph_.inputs(op).end());
    std::sort(read_.begin(), read_.end());
    read_.erase(std::unique(read_.begin(), read_.end()), read_.end());
    for (const TensorId tensor : read_) {
      if (DeviceOf(graph_.tensor(tensor).producer) == device) {
        Release(tensor, device);
        continue;
      }
      const TensorState& state = tensors_[Index(tensor)];
      for (std::uint32_t i = 0; i < state.num_transfers; ++i) {
        TransferState& copy = transfers_[state.first_transfer + i];
        if (Index(copy.to) != device) continue;
        if (--copy.readers_left == 0) Log(device, now_, -SizeOf(tensor));
      }
    }
  }

  void Release(TensorId tensor, std::uint32_t home) {
    if (--tensors_[Index(tensor)].holders == 0) Log(home, now_, -SizeOf(tensor));
  }

  void Log(std::uint32_t device, std::int64_t time, std::int64_t bytes) {
    if (counts_memory_ && bytes != 0) changes_.push_back({device, time, bytes});
  }

  // By device, then by time; with one at 0 for each device.
  void SortChanges() {
    for (std::size_t d = 0; d < devices_.size(); ++d) changes_.push_back({static_cast<std::uint32_t>(d), 0, 0});
    std::sort(changes_.begin(), changes_.end(), [](const MemoryChange& a, const MemoryChange& b) {
      return std::tie(a.device, a.time) < std::tie(b.device, b.time);
    });
  }

  // Calls `tell` with (device, time, in use) for each instant at which that changes, and for 0.
  template <typename Tell>
  void ForEachMemory(const Tell& tell) const {
    std::vector<std::int64_t> in_use(devices_.size());
    for (std::size_t i = 0; i < graph_.num_ops(); ++i) {
      const auto op = MakeId<OpId>(i);
      in_use[DeviceOf(op)] += graph_.op(op).persistent.count;
    }
    for (std::size_t i = 0; i < changes_.size(); ++i) {
      const MemoryChange& change = changes_[i];
      in_use[change.device] += change.bytes;
      // All changes of an instant are in when time goes on.
      const bool goes_on =
          i + 1 == changes_.size() || changes_[i + 1].device != change.device || changes_[i + 1].time != change.time;
      if (goes_on) tell(change.device, change.time, in_use[change.device]);
    }
  }

  const Problem& problem_;
  const Graph& graph_;
  const Cluster& cluster_;
  FlowNetwork& network_;
  std::span<const DeviceId> placement_;
  const bool counts_memory_;
  const bool shares_links_;
  const std::optional<CollectiveAlgorithm> expand_;
  const bool one_for_each_;

  std::int64_t now_ = 0;
  std::int64_t step_time_ = 0;
  std::uint64_t next_serial_ = 0;
  MinHeap<Event> events_;
  MinHeap<std::uint32_t> ask_;  // devices for which something changed now
  std::vector<std::uint32_t> inputs_left_;
  std::vector<std::int64_t> start_;
  std::vector<std::int64_t> end_;
  std::vector<OpId> order_;
  std::vector<std::int64_t> lane_free_;                // [number of lanes]
  std::vector<std::int64_t> issue_start_, issue_end_;  // [num_ops] where a device is fed
  std::vector<TensorState> tensors_;
  std::vector<DeviceState> devices_;
  std::vector<ChannelState> channels_;
  std::vector<TransferState> transfers_;
  std::vector<FlowOwner> owner_of_flow_;
  std::vector<CollectiveState> collectives_;
  MinHeap<std::uint32_t> may_start_;                    // collectives whose members have all arrived
  std::vector<std::vector<std::uint32_t>> blocked_on_;  // [num_devices]: collectives that wait for the device's
  std::vector<PartState> parts_;
  std::vector<std::uint32_t> free_parts_;  // of parts_: may be used again
  std::vector<MemoryChange> changes_;
  std::vector<std::uint32_t> destinations_;
  std::vector<TensorId> read_;
};

struct FlowWorkspace : Simulator::Workspace {
  explicit FlowWorkspace(const Problem& problem) : network(problem.bytes_per_ns) {}
  FlowNetwork network;
};

class FlowEngine : public Simulator::Engine {
 public:
  FlowEngine(const Graph& graph, const Cluster& cluster, const CostTable& costs, const SimOptions& options,
             bool shares_links)
      : problem_(graph, cluster, costs), options_(options), shares_links_(shares_links) {
    if (options.collectives == "model") return;
    expand_ = options.collectives == "tree" ? CollectiveAlgorithm::kTree : CollectiveAlgorithm::kRing;
  }

  std::unique_ptr<Simulator::Workspace> MakeWorkspace() const override {
    return std::make_unique<FlowWorkspace>(problem_);
  }

  void Run(std::span<const DeviceId> placement, Simulator::Workspace& workspace, StepResult* result,
           Timeline* timeline) const override {
    flow::Run run(problem_, &static_cast<FlowWorkspace&>(workspace).network, placement,
                  {.counts_memory = options_.peak_memory, .shares_links = shares_links_, .expand = expand_});
    run.Simulate();
    result->step_time_micros = MicrosFromDuration(Duration(run.step_time()));
    result->fits_memory = true;
    result->peak_memory.clear();
    result->start_micros.clear();
    if (options_.start_times) {
      for (const std::int64_t start : run.start()) {
        result->start_micros.push_back(MicrosFromDuration(Duration(start)));
      }
    }
    if (options_.peak_memory) run.TellPeaks(result);
    if (timeline != nullptr) run.Tell(timeline);
  }

 private:
  Problem problem_;
  SimOptions options_;
  bool shares_links_;
  std::optional<CollectiveAlgorithm> expand_;
};

}  // namespace
}  // namespace flow

std::unique_ptr<Simulator::Engine> MakeFlowEngine(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                                                  const SimOptions& options) {
  return std::make_unique<flow::FlowEngine>(graph, cluster, costs, options, !cluster.topology().empty());
}

std::unique_ptr<Simulator::Engine> MakeFlowEngineWithoutTopology(const Graph& graph, const Cluster& cluster,
                                                                 const CostTable& costs, const SimOptions& options) {
  return std::make_unique<flow::FlowEngine>(graph, cluster, costs, options, false);
}

}  // namespace emplace
