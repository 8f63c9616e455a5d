#ifndef EMPLACE_SIM_ENGINES_FLOW_DEVICES_H_
#define EMPLACE_SIM_ENGINES_FLOW_DEVICES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "sim/engines/flow_problem.h"

namespace emplace::flow {

struct DeviceState {
  MinHeap<std::pair<std::int64_t, OpId>> ready;  // (ready time, op): docs/model.md, F10
  std::int64_t free_at = 0;
  std::int64_t op_ends = 0;
  bool is_scheduled = false;  // whether it can start an op: FlowDevices::Schedule
  // A device that an issue lane feeds has these (docs/model.md, F16 to F18). Its free_at is when its stream is free.
  std::int64_t may_issue_at = 0;
  std::vector<std::int64_t> queued_until = {};  // a ring of the ends of the last ops
  std::size_t oldest = 0;
};

// Ops on devices: their queues, their lanes, and when each op runs.
class FlowDevices {
 public:
  FlowDevices(const RunInput& input, Events* events, MemoryLog* memory)
      : input_(input),
        events_(*events),
        memory_(*memory),
        start_(input.graph.num_ops()),
        end_(input.graph.num_ops()),
        devices_(input.cluster.num_devices()) {
    if (input.problem.lane.empty()) return;
    lane_free_.resize(input.problem.fed_by.size());
    issue_start_.resize(input.graph.num_ops());
    issue_end_.resize(input.graph.num_ops());
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      if (!input.problem.IsFed(d)) continue;
      const auto most = static_cast<std::uint64_t>(input.cluster.devices()[d].issue->max_queued);
      devices_[d].queued_until.resize(most < input.graph.num_ops() ? static_cast<std::size_t>(most) : 0);
    }
  }

  std::int64_t step_time() const { return step_time_; }
  const std::vector<std::int64_t>& start() const { return start_; }
  std::int64_t end(OpId op) const { return end_[Index(op)]; }
  std::int64_t issue_start(OpId op) const { return issue_start_[Index(op)]; }
  std::int64_t issue_end(OpId op) const { return issue_end_[Index(op)]; }
  const std::vector<OpId>& order() const { return order_; }  // in the order in which ops started

  // Adds an op whose inputs are there.
  void AddReady(OpId op) {
    const std::uint32_t device = input_.DeviceOf(op);
    devices_[device].ready.emplace(events_.now(), op);
    Schedule(device);
  }
  // Something changed now that may let the device start an op.
  void Schedule(std::uint32_t device) {
    if (devices_[device].is_scheduled) return;
    devices_[device].is_scheduled = true;
    ask_.push(device);
  }
  // The device, by number, that is handled next; none: nothing changed.
  std::optional<std::uint32_t> NextScheduled() {
    if (ask_.empty()) return std::nullopt;
    const std::uint32_t device = ask_.top();
    ask_.pop();
    devices_[device].is_scheduled = false;
    return device;
  }
  // `is_sending`: whether the device copies by itself and is busy with that.
  template <typename IsSending>
  void StartOn(std::uint32_t device, const IsSending& is_sending) {
    const std::int64_t now = events_.now();
    if (input_.problem.IsFed(device)) return IssueOn(device);
    DeviceState& state = devices_[device];
    if (state.ready.empty() || state.free_at > now || is_sending()) return;
    const OpId op = state.ready.top().second;
    state.ready.pop();
    PutOn(op, device, now, TimeOf(op, device, now));
    if (state.free_at > state.op_ends) events_.Push(state.free_at, Event::Kind::kDeviceIsFree, device);
  }

  // Members of collectives take no device.
  void BeginMember(OpId op) {
    const std::int64_t now = events_.now();
    start_[Index(op)] = now;
    order_.push_back(op);
    LogStart(op, input_.DeviceOf(op), now);
  }
  void EndMember(OpId op) {
    const std::int64_t now = events_.now();
    end_[Index(op)] = now;
    step_time_ = std::max(step_time_, now);
    memory_.Add(input_.DeviceOf(op), now, -input_.graph.op(op).temp.count);
  }

 private:
  void LogStart(OpId op, std::uint32_t device, std::int64_t time) {
    if (!memory_.counts()) return;
    memory_.Add(device, time, input_.graph.op(op).temp.count);
    for (std::size_t k = 0; k < input_.graph.num_outputs(op); ++k) {
      memory_.Add(device, time, input_.SizeOf(input_.Output(op, k)));
    }
  }

  // docs/model.md, F15 to F18.
  void IssueOn(std::uint32_t device) {
    const std::int64_t now = events_.now();
    DeviceState& state = devices_[device];
    std::int64_t& lane_free = lane_free_[input_.problem.lane[device]];
    if (state.ready.empty() || lane_free > now || state.may_issue_at > now) return;
    const OpId op = state.ready.top().second;
    state.ready.pop();
    lane_free = now + input_.problem.HostTime(op, device);
    issue_start_[Index(op)] = now;
    issue_end_[Index(op)] = lane_free;
    const std::size_t kind = input_.problem.costs.KindIndex(MakeId<DeviceId>(device));
    const bool launches = DurationFromMicros(input_.problem.costs.KindMicros(op, kind)).count() != 0;
    const double latency = launches ? input_.cluster.devices()[device].issue->launch_latency_micros : 0;
    const std::int64_t start = std::max(state.free_at, lane_free + DurationFromMicros(latency).count());
    PutOn(op, device, start, TimeOf(op, device, start));
    if (!state.queued_until.empty()) {
      if (launches) {
        state.queued_until[state.oldest] = state.op_ends;
        state.oldest = state.oldest + 1 == state.queued_until.size() ? 0 : state.oldest + 1;
      }
      state.may_issue_at = state.queued_until[state.oldest];
      if (state.may_issue_at > lane_free) events_.Push(state.may_issue_at, Event::Kind::kDeviceIsFree, device);
    }
    events_.Push(lane_free, Event::Kind::kIssued, Index(op));
  }

  void PutOn(OpId op, std::uint32_t device, std::int64_t start, std::int64_t time) {
    DeviceState& state = devices_[device];
    start_[Index(op)] = start;
    end_[Index(op)] = start + time;
    order_.push_back(op);
    state.op_ends = end_[Index(op)];
    state.free_at = state.op_ends + (time == 0 ? 0 : input_.problem.Gap(device));
    step_time_ = std::max(step_time_, state.op_ends);
    events_.Push(state.op_ends, Event::Kind::kOpEnds, Index(op));
    memory_.Add(device, state.op_ends, -input_.graph.op(op).temp.count);
    LogStart(op, device, start);
  }

  // docs/model.md, F14.
  std::int64_t TimeOf(OpId op, std::uint32_t device, std::int64_t start) const {
    const std::size_t kind = input_.problem.costs.KindIndex(MakeId<DeviceId>(device));
    const std::int64_t alone = DurationFromMicros(input_.problem.costs.KindMicros(op, kind)).count();
    const double factor = input_.problem.costs.KindContention(op, kind);
    if (factor == 1) return alone;
    for (std::size_t other = 0; other < devices_.size(); ++other) {
      if (other == device || devices_[other].op_ends <= start) continue;
      if (input_.problem.costs.KindIndex(MakeId<DeviceId>(other)) != kind) continue;
      return RoundToInteger(static_cast<double>(alone) * factor);
    }
    return alone;
  }

  const RunInput input_;
  Events& events_;
  MemoryLog& memory_;
  std::int64_t step_time_ = 0;
  std::vector<std::int64_t> start_;
  std::vector<std::int64_t> end_;
  std::vector<OpId> order_;
  std::vector<DeviceState> devices_;
  MinHeap<std::uint32_t> ask_;                         // devices for which something changed now
  std::vector<std::int64_t> lane_free_;                // [number of lanes]
  std::vector<std::int64_t> issue_start_, issue_end_;  // [num_ops] where a device has a lane
};

}  // namespace emplace::flow

#endif  // EMPLACE_SIM_ENGINES_FLOW_DEVICES_H_
