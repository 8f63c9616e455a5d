#ifndef EMPLACE_SIM_ENGINES_FLOW_COLLECTIVES_H_
#define EMPLACE_SIM_ENGINES_FLOW_COLLECTIVES_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "sim/engines/flow_devices.h"
#include "sim/engines/flow_problem.h"
#include "sim/engines/flow_transfers.h"
#include "sim/network/collective_flows.h"
#include "sim/network/collective_times.h"

namespace emplace::flow {

struct CollectiveState {
  std::size_t missing = 0;        // members that have not arrived
  std::vector<DeviceId> devices;  // ascending, distinct; of a pair the sender, then the receiver
  std::uint32_t parts_left = 0;   // parts that have not arrived, once the collective has begun
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

// Collectives: who has arrived, who takes part, and the flows of those that are expanded.
class Collectives {
 public:
  Collectives(const RunInput& input, Events* events, FlowDevices* devices, Flows* flows)
      : input_(input), events_(*events), devices_(*devices), flows_(*flows) {
    for (const Collective& collective : input.graph.collectives()) {
      collectives_.push_back({.missing = collective.members.size(), .devices = DevicesOf(collective, input.placement)});
    }
    if (collectives_.empty()) return;
    takes_part_.resize(input.cluster.num_devices());
    blocked_on_.resize(input.cluster.num_devices());
  }

  // A member has arrived.
  void Arrive(std::size_t index) {
    if (--collectives_[index].missing == 0) may_start_.push(static_cast<std::uint32_t>(index));
  }
  // The next one whose members have all arrived; none: no other may start now.
  std::optional<std::uint32_t> NextToTry() {
    if (may_start_.empty()) return std::nullopt;
    const std::uint32_t index = may_start_.top();
    may_start_.pop();
    return index;
  }
  // docs/model.md, K2 to K4.
  void Try(std::uint32_t index) {
    const CollectiveState& state = collectives_[index];
    for (const DeviceId device : state.devices) {
      if (takes_part_[Index(device)]) return blocked_on_[Index(device)].push_back(index);
    }
    const Collective& collective = input_.graph.collectives()[index];
    for (const DeviceId device : state.devices) takes_part_[Index(device)] = true;
    for (const OpId op : collective.members) devices_.BeginMember(op);
    const std::optional<double> given =
        MeasuredCollectiveMicros(collective, input_.placement, input_.graph, input_.cluster);
    if (given || !input_.expand || state.devices.size() == 1) {
      const Duration time =
          given ? DurationFromMicros(*given)
                : input_.problem.collective_times.Of(collective.kind, collective.size, state.devices).duration;
      return events_.Push(events_.now() + time.count(), Event::Kind::kCollectiveEnds, index);
    }
    const double fixed = input_.problem.collective_times.FixedMicros(collective.size);
    events_.Push(events_.now() + DurationFromMicros(fixed).count(), Event::Kind::kPartsBegin, index);
  }
  // Its devices may take part in others.
  void End(std::uint32_t index) {
    for (const DeviceId device : collectives_[index].devices) {
      takes_part_[Index(device)] = false;
      for (const std::uint32_t blocked : blocked_on_[Index(device)]) may_start_.push(blocked);
      blocked_on_[Index(device)].clear();
    }
  }

  // docs/model.md, K13.
  void BeginParts(std::uint32_t index) {
    const Collective& collective = input_.graph.collectives()[index];
    CollectiveState& state = collectives_[index];
    std::vector<CollectiveFlow> flows =
        CollectiveFlows(collective.kind, collective.size, state.devices.size(), *input_.expand);
    const auto has_link = [&](const CollectiveFlow& flow) {
      return input_.cluster.link(state.devices[flow.from], state.devices[flow.to]).exists();
    };
    if (!std::all_of(flows.begin(), flows.end(), has_link)) {
      flows = CollectiveFlows(collective.kind, collective.size, state.devices.size(), CollectiveAlgorithm::kRing);
    }
    state.parts_left = static_cast<std::uint32_t>(flows.size());
    std::vector<std::uint32_t> place;  // position of each flow in parts_
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
  void StartPart(std::uint32_t index) {
    flows_.Start(parts_[index].from, parts_[index].to, parts_[index].size, {.index = index, .is_part = true});
  }
  // Returns the collective if this was its last part.
  std::optional<std::uint32_t> PartArrives(std::uint32_t index) {
    const std::uint32_t collective = parts_[index].collective;
    const std::vector<std::uint32_t> next = std::move(parts_[index].next);
    free_parts_.push_back(index);
    for (const std::uint32_t part : next) {
      if (--parts_[part].waits == 0) BeginPart(part);
    }
    return --collectives_[collective].parts_left == 0 ? std::optional(collective) : std::nullopt;
  }

 private:
  void BeginPart(std::uint32_t index) {
    const PartState& part = parts_[index];
    const Link& link = input_.cluster.link(part.from, part.to);
    const std::int64_t latency = DurationFromMicros(link.latency_micros).count();
    if (!input_.shares_links) {
      return events_.Push(events_.now() + latency + TransferDuration(part.size, link.rate()).count(),
                          Event::Kind::kPartArrives, index);
    }
    events_.Push(events_.now() + latency, Event::Kind::kPartStarts, index);
  }

  const RunInput input_;
  Events& events_;
  FlowDevices& devices_;
  Flows& flows_;
  std::vector<CollectiveState> collectives_;
  std::vector<bool> takes_part_;                        // indexed by device
  MinHeap<std::uint32_t> may_start_;                    // collectives whose members have all arrived
  std::vector<std::vector<std::uint32_t>> blocked_on_;  // [num_devices]: collectives that wait for the device's
  std::vector<PartState> parts_;
  std::vector<std::uint32_t> free_parts_;  // entries of parts_ that can be reused
};

}  // namespace emplace::flow

#endif  // EMPLACE_SIM_ENGINES_FLOW_COLLECTIVES_H_
