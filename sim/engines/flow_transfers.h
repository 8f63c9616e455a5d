#ifndef EMPLACE_SIM_ENGINES_FLOW_TRANSFERS_H_
#define EMPLACE_SIM_ENGINES_FLOW_TRANSFERS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "sim/engines/flow_problem.h"
#include "sim/network/flow_network.h"

namespace emplace::flow {

// A flow over links that others share is of a transfer, or of a part of a collective.
struct FlowOwner {
  std::uint32_t index = 0;
  bool is_part = false;
};

// The flows of a run in the network.
class Flows {
 public:
  Flows(const RunInput& input, const Events& events, FlowNetwork* network)
      : input_(input), events_(events), network_(*network) {
    network_.Clear();
  }

  void Start(DeviceId from, DeviceId to, Bytes size, FlowOwner owner) {
    const std::int64_t alone = TransferDuration(size, input_.cluster.link(from, to).rate()).count();
    const auto route = input_.cluster.topology().Route(Index(from), Index(to));
    const FlowNetwork::Flow flow = network_.Start(events_.now(), route, size.count, alone);
    if (flow >= owner_of_flow_.size()) owner_of_flow_.resize(flow + 1);
    owner_of_flow_[flow] = owner;
  }
  std::optional<std::int64_t> NextEnd() { return network_.NextEnd(); }
  FlowOwner End() { return owner_of_flow_[network_.End()]; }

 private:
  const RunInput input_;
  const Events& events_;
  FlowNetwork& network_;
  std::vector<FlowOwner> owner_of_flow_;
};

// There may be a channel for each pair of 1,024 devices: no queue of its own, but the transfers lead to the next ones.
struct ChannelState {
  std::uint32_t first = kNone;  // first waiting transfer
  std::uint32_t last = kNone;
  bool is_busy = false;  // whether it sends the previous transfer, or pauses after it
};

struct FlowTransfer {
  TensorId tensor{};
  DeviceId from{};
  DeviceId to{};
  std::int64_t start = 0;
  std::int64_t arrival = 0;
  std::uint32_t readers_left = 0;
  std::uint32_t next = kNone;  // next transfer that waits for the same channel
};

struct TensorState {
  std::uint32_t holders = 0;  // readers at home that have not ended, and transfers that have not arrived
  std::uint32_t first_transfer = 0;
  std::uint32_t num_transfers = 0;
};

// Tensors on their way between devices, and who holds them.
class Transfers {
 public:
  Transfers(const RunInput& input, Events* events, MemoryLog* memory, Flows* flows)
      : input_(input),
        events_(*events),
        memory_(*memory),
        flows_(*flows),
        one_for_each_(input.cluster.channels() == Channels::kPerPair),
        tensors_(input.graph.num_tensors()),
        channels_(input.cluster.num_devices() * (one_for_each_ ? input.cluster.num_devices() : 1)) {}

  const std::vector<FlowTransfer>& all() const { return transfers_; }
  // Whether the device copies by itself, and does.
  bool IsSending(std::uint32_t device) const {
    return input_.problem.CopiesByItself(device) && channels_[ChannelIndex(device, 0)].is_busy;
  }

  // docs/model.md, F4 to F6.
  template <typename AtHome>
  void Send(TensorId tensor, std::uint32_t device, const AtHome& at_home) {
    destinations_.clear();
    TensorState& state = tensors_[Index(tensor)];
    state.first_transfer = static_cast<std::uint32_t>(transfers_.size());
    for (const OpId reader : input_.graph.consumers(tensor)) {
      if (input_.DeviceOf(reader) == device) {
        ++state.holders;
        at_home(reader);
      } else {
        destinations_.push_back(input_.DeviceOf(reader));
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
    if (state.holders == 0) memory_.Add(device, events_.now(), -input_.SizeOf(tensor));
    for (std::uint32_t i = 0; i < state.num_transfers; ++i) {
      const std::uint32_t transfer = state.first_transfer + i;
      ChannelState& channel = ChannelOf(device, Index(transfers_[transfer].to));
      (channel.first == kNone ? channel.first : transfers_[channel.last].next) = transfer;
      channel.last = transfer;
      if (!channel.is_busy) BeginNext(&channel);
    }
  }
  void StartTransfer(std::uint32_t index) {
    const FlowTransfer& transfer = transfers_[index];
    flows_.Start(transfer.from, transfer.to, Bytes{input_.SizeOf(transfer.tensor)}, {.index = index, .is_part = false});
  }
  // Ends a transfer. Returns the device that may start an op again, if there is one.
  std::optional<std::uint32_t> Arrive(std::uint32_t index) {
    const std::int64_t now = events_.now();
    FlowTransfer& transfer = transfers_[index];
    transfer.arrival = now;
    const TensorId tensor = transfer.tensor;
    const DeviceId from = transfer.from;
    const DeviceId to = transfer.to;
    Release(tensor, static_cast<std::uint32_t>(Index(from)));
    const std::size_t channel = ChannelIndex(Index(from), Index(to));
    const std::int64_t gap = DurationFromMicros(input_.cluster.link(from, to).gap_micros).count();
    if (gap == 0) return Free(static_cast<std::uint32_t>(channel));
    events_.Push(now + gap, Event::Kind::kChannelIsFree, channel);
    return std::nullopt;
  }
  // A channel has paused long enough. Returns the same.
  std::optional<std::uint32_t> Free(std::uint32_t channel) {
    channels_[channel].is_busy = false;
    if (channels_[channel].first != kNone) {
      BeginNext(&channels_[channel]);
      return std::nullopt;
    }
    const auto device = static_cast<std::uint32_t>(one_for_each_ ? channel / input_.cluster.num_devices() : channel);
    return input_.problem.CopiesByItself(device) ? std::optional(device) : std::nullopt;
  }
  // The op has ended: what it read may be freed.
  void HasRead(OpId op, std::uint32_t device) {
    if (!memory_.counts()) return;
    read_.assign(input_.graph.inputs(op).begin(), input_.graph.inputs(op).end());
    std::sort(read_.begin(), read_.end());
    read_.erase(std::unique(read_.begin(), read_.end()), read_.end());
    for (const TensorId tensor : read_) {
      if (input_.DeviceOf(input_.graph.tensor(tensor).producer) == device) {
        Release(tensor, device);
        continue;
      }
      const TensorState& state = tensors_[Index(tensor)];
      for (std::uint32_t i = 0; i < state.num_transfers; ++i) {
        FlowTransfer& copy = transfers_[state.first_transfer + i];
        if (Index(copy.to) != device) continue;
        if (--copy.readers_left == 0) memory_.Add(device, events_.now(), -input_.SizeOf(tensor));
      }
    }
  }

 private:
  // A device that copies by itself has one channel (F13).
  std::size_t ChannelIndex(std::size_t from, std::size_t to) const {
    if (!one_for_each_) return from;
    return from * input_.cluster.num_devices() + (input_.problem.CopiesByItself(from) ? 0 : to);
  }
  ChannelState& ChannelOf(std::size_t from, std::size_t to) { return channels_[ChannelIndex(from, to)]; }

  void BeginNext(ChannelState* channel) {
    const std::int64_t now = events_.now();
    const std::uint32_t index = channel->first;
    FlowTransfer& transfer = transfers_[index];
    channel->first = transfer.next;
    channel->is_busy = true;
    transfer.start = now;
    memory_.Add(static_cast<std::uint32_t>(Index(transfer.to)), now, input_.SizeOf(transfer.tensor));
    const Link& link = input_.cluster.link(transfer.from, transfer.to);
    const std::int64_t latency = DurationFromMicros(link.latency_micros).count();
    if (!input_.shares_links) {
      const std::int64_t takes = TransferDuration(Bytes{input_.SizeOf(transfer.tensor)}, link.rate()).count();
      events_.Push(now + latency + takes, Event::Kind::kTransferArrives, index);
    } else if (latency > 0) {
      events_.Push(now + latency, Event::Kind::kFlowStarts, index);
    } else {
      StartTransfer(index);
    }
  }

  void Release(TensorId tensor, std::uint32_t home) {
    if (--tensors_[Index(tensor)].holders == 0) memory_.Add(home, events_.now(), -input_.SizeOf(tensor));
  }

  const RunInput input_;
  Events& events_;
  MemoryLog& memory_;
  Flows& flows_;
  const bool one_for_each_;
  std::vector<TensorState> tensors_;
  std::vector<ChannelState> channels_;
  std::vector<FlowTransfer> transfers_;
  std::vector<std::uint32_t> destinations_;  // scratch
  std::vector<TensorId> read_;               // scratch
};

}  // namespace emplace::flow

#endif  // EMPLACE_SIM_ENGINES_FLOW_TRANSFERS_H_
