#ifndef EMPLACE_AGENTS_THROUGHPUT_PIPELINE_CHAIN_H_
#define EMPLACE_AGENTS_THROUGHPUT_PIPELINE_CHAIN_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "agents/throughput/chain_parts.h"
#include "agents/throughput/contiguous_units.h"
#include "sim/base/units.h"
#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/graph.h"
#include "sim/placement.h"
#include "sim/schedule/schedule_simulator.h"

namespace emplace::agents {

// A chain of parts, cut into stages.
struct PipelineCut {
  std::vector<DeviceId> devices;  // indexed by rank of the schedule
  std::vector<std::size_t>
      ends;  // indexed by stage: the part behind its last one; ascending, the last is the chain's size
  auto operator<=>(const PipelineCut&) const = default;
};

// A network in parts that follow one another, with what a stage of some of them takes and holds by the rules of
// schedules (docs/model.md, S1 to S18): times of each role, weights, gradients, what a micro-batch in flight holds, and
// what passes each boundary. A part is a unit with forward ops, and the units without any that follow it.
// A few things are not in it: collectives, weights that several stages read, and tensors that skip a stage are taken to
// pass it.
class PipelineChain {
 public:
  // Throws InputError where ops are in no order of passes, as PipelineRoles.
  PipelineChain(const Graph& graph, const Cluster& cluster, const CostTable& costs, const ContiguousUnits& units);

  std::size_t size() const { return parts_.size; }
  std::size_t part_of(OpId op) const { return parts_.part_of[Index(op)]; }  // size() where it is in none
  bool Allowed(std::size_t part, DeviceId device) const { return AllowedUpTo(device, part, part + 1); }
  // Whether all parts of a range may run there.
  bool AllowedUpTo(DeviceId device, std::size_t first, std::size_t end) const;
  // Whether devices are alike in times and memory.
  bool Alike(DeviceId a, DeviceId b) const;
  // Forward and backward of a micro-batch, in µs.
  double Micros(DeviceId device, std::size_t first, std::size_t end) const;
  // About what a stage of these parts holds, with this many micro-batches in flight.
  double StageBytes(std::size_t first, std::size_t end, std::size_t in_flight) const;

  // The cut as a model for SimulateSchedule.
  PipelineModel ModelOf(const PipelineCut& cut, std::span<const std::size_t> rank_of_stage) const;
  // The cut as a placement of all ops. Ops of no part go to their fastest device.
  Placement PlacementOf(const PipelineCut& cut, std::span<const std::size_t> rank_of_stage) const;

 private:
  // `anywhere`: each op where it may run.
  PipelineChain(const Graph& graph, const Cluster& cluster, const CostTable& costs, const ContiguousUnits& units,
                const Placement& anywhere);
  PipelineChain(const Graph& graph, const Cluster& cluster, const CostTable& costs, const ContiguousUnits& units,
                const Placement& anywhere, const std::vector<PipelineRole>& roles);
  Duration Transfer(DeviceId from, DeviceId to, std::int64_t bytes, std::int64_t tensors) const;
  // The parts from `first` to `end` as a stage.
  PipelineStage StageOf(DeviceId device, std::size_t first, std::size_t end) const;
  // Adds what stage `s` keeps between its actions, and what passes the boundary before it.
  void AddKept(std::size_t s, std::size_t rank, std::size_t first, std::size_t end, PipelineModel* model) const;
  void AddCrossings(const PipelineCut& cut, std::size_t s, std::size_t first, PipelineModel* model) const;

  const Graph& graph_;
  const Cluster& cluster_;
  const CostTable& costs_;
  ChainParts parts_;
  ChainSpeeds speeds_;
  ChainBytes bytes_;
  RangeMax backwards_;               // values that cross boundaries backwards
  std::vector<RangeMax> transient_;  // indexed by ActionKind
};

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_THROUGHPUT_PIPELINE_CHAIN_H_
