#include "sim/engines/flow.h"
#include "sim/base/check.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "sim/engines/flow_collectives.h"
#include "sim/engines/flow_devices.h"
#include "sim/engines/flow_problem.h"
#include "sim/engines/flow_transfers.h"
#include "sim/network/flow_network.h"

namespace emplace {
namespace flow {
namespace {

// One run.
class Run {
 public:
  Run(const RunInput& input, FlowNetwork* network)
      : input_(input),
        memory_(input.counts_memory),
        flows_(input_, events_, network),
        devices_(input_, &events_, &memory_),
        transfers_(input_, &events_, &memory_, &flows_),
        collectives_(input_, &events_, &devices_, &flows_),
        inputs_left_(input.problem.inputs_left) {}

  void Simulate() {
    for (std::size_t i = 0; i < inputs_left_.size(); ++i) {
      if (inputs_left_[i] == 0) IsReady(MakeId<OpId>(i));
    }
    while (true) {
      const Event* const event = events_.next();
      if (event != nullptr && event->time == events_.now()) {
        const Event happens = *event;
        events_.Pop();
        Handle(happens);
        continue;
      }
      const std::optional<std::int64_t> flow_ends = flows_.NextEnd();
      if (flow_ends == events_.now()) {
        EndFlow(flows_.End());
      } else if (const auto collective = collectives_.NextToTry()) {
        collectives_.Try(*collective);
      } else if (const auto device = devices_.NextScheduled()) {
        // Everything that happens now has happened: ops start, by device (F11).
        devices_.StartOn(*device, [&] { return transfers_.IsSending(*device); });
      } else if (event == nullptr && !flow_ends) {
        break;
      } else {
        events_.GoTo(event == nullptr ? *flow_ends : std::min(event->time, flow_ends.value_or(event->time)));
      }
    }
    memory_.Sort(input_.cluster.num_devices());
  }

  std::int64_t step_time() const { return devices_.step_time(); }
  const std::vector<std::int64_t>& start() const { return devices_.start(); }

  void TellPeaks(StepResult* result) const {
    const std::size_t n = input_.cluster.num_devices();
    result->peak_memory.assign(n, Bytes{});
    memory_.ForEach(input_, [&](std::uint32_t device, std::int64_t, std::int64_t in_use) {
      result->peak_memory[device] = std::max(result->peak_memory[device], Bytes{in_use});
    });
    for (std::size_t d = 0; d < n; ++d) {
      const std::optional<Bytes>& capacity = input_.cluster.devices()[d].memory;
      if (capacity && result->peak_memory[d] > *capacity) result->fits_memory = false;
    }
  }

  void Tell(Timeline* timeline) const {
    const auto micros = [](std::int64_t time) { return MicrosFromDuration(Duration(time)); };
    timeline->ops.clear();
    timeline->issued.clear();
    timeline->transfers.clear();
    timeline->memory.clear();
    for (const OpId op : devices_.order()) {
      timeline->ops.push_back({.op = op,
                               .device = input_.placement[Index(op)],
                               .start_micros = micros(devices_.start()[Index(op)]),
                               .end_micros = micros(devices_.end(op))});
      if (!input_.WasIssued(op)) continue;
      timeline->issued.push_back(op);
      timeline->ops.back().issue_start_micros = micros(devices_.issue_start(op));
      timeline->ops.back().issue_end_micros = micros(devices_.issue_end(op));
    }
    // Ops that start together are in order of devices, as in fifo.
    std::stable_sort(timeline->ops.begin(), timeline->ops.end(), [](const auto& a, const auto& b) {
      return std::pair(a.start_micros, a.device) < std::pair(b.start_micros, b.device);
    });
    for (const FlowTransfer& transfer : transfers_.all()) {
      timeline->transfers.push_back(
          {transfer.tensor, transfer.from, transfer.to, micros(transfer.start), micros(transfer.arrival)});
    }
    if (!memory_.counts()) return;
    memory_.ForEach(input_, [&](std::uint32_t device, std::int64_t time, std::int64_t in_use) {
      timeline->memory.push_back({MakeId<DeviceId>(device), micros(time), Bytes{in_use}});
    });
  }

 private:
  void Handle(const Event& event) {
    switch (event.kind) {
      case Event::Kind::kOpEnds:
        return End(MakeId<OpId>(event.what));
      case Event::Kind::kDeviceIsFree:
        return devices_.Schedule(event.what);
      case Event::Kind::kIssued:
        return EndIssue(MakeId<OpId>(event.what));
      case Event::Kind::kControlArrives:
        return Has(MakeId<OpId>(event.what));
      case Event::Kind::kFlowStarts:
        return transfers_.StartTransfer(event.what);
      case Event::Kind::kTransferArrives:
        return EndFlow({.index = event.what, .is_part = false});
      case Event::Kind::kChannelIsFree:
        return ScheduleIfAny(transfers_.Free(event.what));
      case Event::Kind::kCollectiveEnds:
        return EndCollective(event.what);
      case Event::Kind::kPartsBegin:
        return collectives_.BeginParts(event.what);
      case Event::Kind::kPartStarts:
        return collectives_.StartPart(event.what);
      case Event::Kind::kPartArrives:
        return EndFlow({.index = event.what, .is_part = true});
    }
  }

  // A transfer or a part of a collective has arrived.
  void EndFlow(FlowOwner owner) {
    if (owner.is_part) {
      if (const auto collective = collectives_.PartArrives(owner.index)) EndCollective(*collective);
      return;
    }
    const FlowTransfer& transfer = transfers_.all()[owner.index];
    for (const OpId reader : input_.graph.consumers(transfer.tensor)) {
      if (input_.placement[Index(reader)] == transfer.to) Has(reader);
    }
    ScheduleIfAny(transfers_.Arrive(owner.index));
  }

  void ScheduleIfAny(std::optional<std::uint32_t> device) {
    if (device) devices_.Schedule(*device);
  }

  // One of what the op waits for is there.
  void Has(OpId op) {
    if (--inputs_left_[Index(op)] == 0) IsReady(op);
  }
  void IsReady(OpId op) {
    if (const std::optional<std::size_t> collective = input_.graph.CollectiveOf(op)) {
      collectives_.Arrive(*collective);
    } else {
      devices_.AddReady(op);
    }
  }

  void EndCollective(std::uint32_t index) {
    for (const OpId op : input_.graph.collectives()[index].members) {
      devices_.EndMember(op);
      End(op);
    }
    collectives_.End(index);
  }

  // Ops behind it in the lane need no more than its issue.
  void EndIssue(OpId op) {
    const std::uint32_t device = input_.DeviceOf(op);
    for (std::size_t k = 0; k < input_.graph.num_outputs(op); ++k) {
      for (const OpId reader : input_.graph.consumers(input_.Output(op, k))) {
        if (input_.DeviceOf(reader) == device && !input_.IsCollective(reader)) Has(reader);
      }
    }
    for (const OpId waits : input_.graph.control_consumers(op)) {
      if (input_.DeviceOf(waits) == device && !input_.IsCollective(waits)) Has(waits);
    }
    for (const std::uint32_t fed : input_.problem.fed_by[input_.problem.lane[device]]) devices_.Schedule(fed);
  }

  void End(OpId op) {
    const std::uint32_t device = input_.DeviceOf(op);
    for (std::size_t k = 0; k < input_.graph.num_outputs(op); ++k) {
      transfers_.Send(input_.Output(op, k), device, [&](OpId reader) {
        if (input_.WaitsForEnd(op, reader)) Has(reader);
      });
    }
    for (const OpId waits : input_.graph.control_consumers(op)) {
      const DeviceId to = input_.placement[Index(waits)];
      if (Index(to) == device) {
        if (input_.WaitsForEnd(op, waits)) Has(waits);
      } else {
        const Link& link = input_.cluster.link(MakeId<DeviceId>(device), to);
        events_.Push(events_.now() + DurationFromMicros(link.latency_micros).count(), Event::Kind::kControlArrives,
                     Index(waits));
      }
    }
    transfers_.HasRead(op, device);
    devices_.Schedule(device);
  }

  const RunInput input_;
  Events events_;
  MemoryLog memory_;
  Flows flows_;
  FlowDevices devices_;
  Transfers transfers_;
  Collectives collectives_;
  std::vector<std::uint32_t> inputs_left_;
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
    if (!cluster.has_plain_links()) {
      throw InputError("", "cluster " + cluster.name() +
                               " has links without contention or with receive, which engine fifo supports for graphs "
                               "without collectives");
    }
    if (options.collectives == "model") return;
    expand_ = options.collectives == "tree" ? CollectiveAlgorithm::kTree : CollectiveAlgorithm::kRing;
  }

  std::unique_ptr<Simulator::Workspace> MakeWorkspace() const override {
    return std::make_unique<FlowWorkspace>(problem_);
  }

  void Run(std::span<const DeviceId> placement, Simulator::Workspace& workspace, StepResult* result,
           Timeline* timeline) const override {
    flow::Run run({.problem = problem_,
                   .graph = problem_.graph,
                   .cluster = problem_.cluster,
                   .placement = placement,
                   .counts_memory = options_.peak_memory,
                   .shares_links = shares_links_,
                   .expand = expand_},
                  &static_cast<FlowWorkspace&>(workspace).network);
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
