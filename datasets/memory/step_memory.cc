#include "datasets/memory/step_memory.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

namespace emplace::datasets {
namespace {

bool IsRead(const Graph& graph, TensorId tensor, Pass pass) {
  return std::ranges::any_of(graph.consumers(tensor), [&](OpId reader) { return graph.op(reader).pass == pass; });
}

bool IsLoss(const Graph& graph, OpId op) {
  const std::string_view kind = graph.op(op).kind;
  return kind.find("cross_entropy") != std::string_view::npos || kind.find("log_softmax") != std::string_view::npos ||
         kind.find("nll_loss") != std::string_view::npos;
}

// Logits are what a loss reads first or returns, and what is cast for it.
bool IsLogits(const Graph& graph, TensorId tensor) {
  const OpId producer = graph.tensor(tensor).producer;
  if (graph.op(producer).kind == "input") return false;
  if (IsLoss(graph, producer)) return true;
  return std::ranges::any_of(graph.consumers(tensor), [&](OpId reader) {
    if (IsLoss(graph, reader)) return graph.inputs(reader).front() == tensor;
    if (graph.op(reader).kind != "cast") return false;
    return std::ranges::any_of(graph.consumers(graph.first_output(reader)), [&](OpId next) {
      return IsLoss(graph, next) && graph.inputs(next).front() == graph.first_output(reader);
    });
  });
}

struct Allocation {
  double from = 0;
  double to = 0;
  std::int64_t bytes = 0;
  std::string_view label;
  MemoryClass memory_class{};
};

struct Event {
  double micros = 0;
  bool is_allocation = false;  // what ends is freed first
  std::size_t allocation = 0;
};

// The allocations that a step makes on the device, those of the whole step aside.
std::vector<Allocation> AllocationsOf(const Graph& graph, const Timeline& timeline, DeviceId device,
                                      const Placement& placement) {
  std::vector<double> start(graph.num_ops());
  std::vector<double> end(graph.num_ops());
  for (const Timeline::OpRun& run : timeline.ops) {
    start[Index(run.op)] = run.start_micros;
    end[Index(run.op)] = run.end_micros;
  }
  const auto last_reader = [&](TensorId tensor) {
    double last = 0;
    for (const OpId reader : graph.consumers(tensor)) {
      if (placement[reader] == device) last = std::max(last, end[Index(reader)]);
    }
    return last;
  };
  std::vector<double> sent(graph.num_tensors());
  std::vector<Allocation> all;
  for (const Timeline::Transfer& transfer : timeline.transfers) {
    const Tensor& tensor = graph.tensor(transfer.tensor);
    if (transfer.from == device) {
      double& last = sent[Index(transfer.tensor)];
      last = std::max(last, transfer.arrival_micros);
    } else if (transfer.to == device) {
      all.push_back({transfer.start_micros, last_reader(transfer.tensor), tensor.size.count, "received",
                     MemoryClass::kCommunication});
    }
  }
  for (const Timeline::OpRun& run : timeline.ops) {
    if (run.device != device) continue;
    const Op& op = graph.op(run.op);
    all.push_back({run.start_micros, run.end_micros, op.temp.count, op.kind, MemoryClass::kTemporary});
    for (std::size_t o = 0; o < graph.num_outputs(run.op); ++o) {
      const TensorId tensor = MakeId<TensorId>(Index(graph.first_output(run.op)) + o);
      const double last = std::max({run.end_micros, last_reader(tensor), sent[Index(tensor)]});
      all.push_back({run.start_micros, last, graph.tensor(tensor).size.count, op.kind, ClassOf(graph, tensor)});
    }
  }
  return all;
}

std::string_view MomentOf(Pass pass) {
  switch (pass) {
    case Pass::kForward:
      return "forward pass";
    case Pass::kBackward:
      return "backward pass";
    case Pass::kUpdate:
      return "update of the weights";
    case Pass::kNone:
      break;
  }
  return "step";
}

}  // namespace

MemoryClass ClassOf(const Graph& graph, TensorId tensor) {
  const OpId producer = graph.tensor(tensor).producer;
  const Op& op = graph.op(producer);
  if (op.kind == "variable") return MemoryClass::kWeights;
  if (op.pass != Pass::kForward && IsRead(graph, tensor, Pass::kUpdate)) return MemoryClass::kGradients;
  if (graph.CollectiveOf(producer)) return MemoryClass::kCommunication;
  if (op.pass == Pass::kForward || op.pass == Pass::kNone) {
    if (IsLogits(graph, tensor)) return MemoryClass::kLogits;
    if (op.pass == Pass::kNone || IsRead(graph, tensor, Pass::kBackward)) return MemoryClass::kActivations;
  }
  return MemoryClass::kTemporary;
}

RankProgram MakeStepProgram(const Graph& graph, const Placement& placement, const Timeline& timeline, DeviceId device) {
  RankProgram program;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const OpId id = MakeId<OpId>(i);
    const Op& op = graph.op(id);
    if (placement[id] != device) continue;
    program.Allocate(op.kind, op.persistent.count,
                     op.pass == Pass::kUpdate ? MemoryClass::kOptimizer : MemoryClass::kWeights);
  }
  const std::vector<Allocation> all = AllocationsOf(graph, timeline, device, placement);
  std::vector<Event> events;
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (all[i].bytes == 0 || all[i].to <= all[i].from) continue;
    events.push_back({all[i].from, true, i});
    events.push_back({all[i].to, false, i});
  }
  std::ranges::stable_sort(events, [](const Event& a, const Event& b) {
    return a.micros != b.micros ? a.micros < b.micros : a.is_allocation < b.is_allocation;
  });
  std::vector<Timeline::OpRun> runs;
  std::ranges::copy_if(timeline.ops, std::back_inserter(runs),
                       [&](const Timeline::OpRun& run) { return run.device == device; });
  auto run = runs.begin();
  std::string_view moment;
  std::vector<RankProgram::Buffer> buffers(all.size());
  for (const Event& event : events) {
    for (; run != runs.end() && run->start_micros <= event.micros; ++run) {
      const std::string_view next = MomentOf(graph.op(run->op).pass);
      if (next != moment) program.Mark(std::string(moment = next));
    }
    if (event.is_allocation) {
      const Allocation& allocation = all[event.allocation];
      buffers[event.allocation] = program.Allocate(allocation.label, allocation.bytes, allocation.memory_class);
    } else {
      program.Release(buffers[event.allocation]);
    }
  }
  if (moment.empty()) program.Mark("step");
  return program;
}

}  // namespace emplace::datasets
