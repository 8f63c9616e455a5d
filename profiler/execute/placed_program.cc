#include "profiler/execute/placed_program.h"

#include <algorithm>
#include <map>
#include <set>

#include "sim/base/check.h"

namespace emplace::profiler {
namespace {

class Maker {
 public:
  Maker(const Graph& graph, const Placement& placement, std::size_t num_devices)
      : graph_(graph), placement_(placement), own_slots_(graph.num_tensors()) {
    EMPLACE_CHECK_EQ(placement.num_ops(), graph.num_ops());
    program_.steps.resize(graph.num_ops());
    program_.roots.resize(num_devices);
    program_.num_ops.resize(num_devices);
    program_.num_copies.resize(num_devices);
  }

  PlacedProgram Make() {
    for (std::size_t n = 0; n < graph_.num_ops(); ++n) AddOutputs(MakeId<OpId>(n));
    for (std::size_t n = 0; n < graph_.num_ops(); ++n) AddEdges(MakeId<OpId>(n));
    for (std::size_t n = 0; n < graph_.num_ops(); ++n) AddInputs(MakeId<OpId>(n));
    for (std::size_t n = 0; n < graph_.num_ops(); ++n) {
      const PlacedProgram::Step& step = program_.steps[n];
      if (step.waits == 0) program_.roots[Index(step.device)].push_back(MakeId<OpId>(n));
    }
    return std::move(program_);
  }

 private:
  void AddOutputs(OpId op) {
    PlacedProgram::Step& step = program_.steps[Index(op)];
    step.device = placement_[op];
    ++program_.num_ops[Index(step.device)];
    for (std::size_t o = 0; o < graph_.num_outputs(op); ++o) {
      const TensorId tensor = MakeId<TensorId>(Index(graph_.first_output(op)) + o);
      own_slots_[Index(tensor)] = AddSlot(tensor, step.device);
      step.outputs.push_back(own_slots_[Index(tensor)]);
    }
  }

  std::uint32_t AddSlot(TensorId tensor, DeviceId device) {
    program_.slots.push_back({.tensor = tensor, .device = device, .size = graph_.tensor(tensor).size});
    return static_cast<std::uint32_t>(program_.slots.size() - 1);
  }

  void AddEdges(OpId op) {
    PlacedProgram::Step& step = program_.steps[Index(op)];
    std::set<OpId> here;
    std::set<OpId> elsewhere;
    for (const std::uint32_t slot : step.outputs) AddCopies(slot, &step, &here);
    for (const OpId reader : graph_.control_consumers(op)) {
      (placement_[reader] == step.device ? here : elsewhere).insert(reader);
    }
    step.next_here.assign(here.begin(), here.end());
    step.next_elsewhere.assign(elsewhere.begin(), elsewhere.end());
    for (const OpId next : step.next_here) ++program_.steps[Index(next)].waits;
    for (const OpId next : step.next_elsewhere) ++program_.steps[Index(next)].waits;
  }

  // One for each other device that reads the tensor, by device.
  void AddCopies(std::uint32_t slot, PlacedProgram::Step* step, std::set<OpId>* here) {
    const TensorId tensor = program_.slots[slot].tensor;
    std::map<DeviceId, std::vector<OpId>> elsewhere;
    for (const OpId reader : graph_.consumers(tensor)) {
      if (placement_[reader] == step->device) {
        here->insert(reader);
      } else {
        elsewhere[placement_[reader]].push_back(reader);
      }
    }
    for (auto& [device, readers] : elsewhere) {
      for (const OpId reader : readers) ++program_.steps[Index(reader)].waits;
      const std::uint32_t to = AddSlot(tensor, device);
      copied_slots_[{tensor, device}] = to;
      ++program_.slots[slot].uses;
      ++program_.num_copies[Index(step->device)];
      step->copies.push_back(static_cast<std::uint32_t>(program_.copies.size()));
      program_.copies.push_back({.from = slot, .to = to, .readers = std::move(readers)});
    }
  }

  void AddInputs(OpId op) {
    PlacedProgram::Step& step = program_.steps[Index(op)];
    for (const TensorId tensor : graph_.inputs(op)) {
      const std::uint32_t own = own_slots_[Index(tensor)];
      const bool is_here = program_.slots[own].device == step.device;
      step.inputs.push_back(is_here ? own : copied_slots_.at({tensor, step.device}));
    }
    step.frees = step.inputs;
    std::sort(step.frees.begin(), step.frees.end());
    step.frees.erase(std::unique(step.frees.begin(), step.frees.end()), step.frees.end());
    for (const std::uint32_t slot : step.frees) ++program_.slots[slot].uses;
  }

  const Graph& graph_;
  const Placement& placement_;
  PlacedProgram program_;
  std::vector<std::uint32_t> own_slots_;  // indexed by TensorId
  std::map<std::pair<TensorId, DeviceId>, std::uint32_t> copied_slots_;
};

}  // namespace

PlacedProgram MakePlacedProgram(const Graph& graph, const Placement& placement, std::size_t num_devices) {
  return Maker(graph, placement, num_devices).Make();
}

}  // namespace emplace::profiler
