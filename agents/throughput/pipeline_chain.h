#ifndef EMPLACE_AGENTS_THROUGHPUT_PIPELINE_CHAIN_H_
#define EMPLACE_AGENTS_THROUGHPUT_PIPELINE_CHAIN_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

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
  std::vector<DeviceId> devices;  // by rank of the schedule
  std::vector<std::size_t> ends;  // by stage: the part behind its last one; ascending, the last is the chain's size
  auto operator<=>(const PipelineCut&) const = default;
};

// The largest of a run of numbers, asked often.
class RangeMax {
 public:
  explicit RangeMax(std::vector<std::int64_t> values);
  std::int64_t Of(std::size_t first, std::size_t end) const;  // 0 if the range is empty

 private:
  std::vector<std::vector<std::int64_t>> levels_;  // levels_[k][i]: the largest of 2^k from i on
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

  std::size_t size() const { return size_; }
  std::size_t part_of(OpId op) const { return part_of_[Index(op)]; }  // size() where it is in none
  bool Allowed(std::size_t part, DeviceId device) const { return AllowedUpTo(device, part, part + 1); }
  // Whether all parts of a range may run there.
  bool AllowedUpTo(DeviceId device, std::size_t first, std::size_t end) const;
  // Whether devices are alike in times and memory.
  bool Alike(DeviceId a, DeviceId b) const;
  // Forward and backward of a micro-batch, in µs.
  double Micros(DeviceId device, std::size_t first, std::size_t end) const;
  // About what a stage of these parts holds, with so many micro-batches in flight.
  double StageBytes(std::size_t first, std::size_t end, std::size_t in_flight) const;

  // The cut as a model for SimulateSchedule.
  PipelineModel ModelOf(const PipelineCut& cut, std::span<const std::size_t> rank_of_stage) const;
  // The cut as a placement of all ops. Ops of no part go to their fastest device.
  Placement PlacementOf(const PipelineCut& cut, std::span<const std::size_t> rank_of_stage) const;

 private:
  enum StageBytesOf : std::uint8_t { kHeld, kGradients, kInputs, kUntilInput, kUntilWeight, kBetweenParts, kNumBytes };
  enum BoundaryOf : std::uint8_t { kForwardOnly, kKept, kBackwards, kNumCrossings };
  struct Speed {                                      // of devices that are alike in times
    std::array<std::vector<std::int64_t>, 3> device;  // [size + 1] ns before a part; forward, input's part, weights'
    std::array<std::vector<std::int64_t>, 3> host;
    std::vector<std::int64_t> final_ops;
    std::vector<std::size_t> refused;  // [size + 1] ops before a part that may not run there
    Duration launch{};
  };
  void AddTimes(const std::vector<std::uint8_t>& roles);
  void AddBytes(const std::vector<std::uint8_t>& roles);
  void AddTransient(const std::vector<std::uint8_t>& roles);
  const Speed& SpeedOf(DeviceId device) const { return speeds_[speed_of_[Index(device)]]; }
  std::int64_t Sum(StageBytesOf what, std::size_t first, std::size_t end) const {
    return bytes_[what][end] - bytes_[what][first];
  }
  Duration Transfer(DeviceId from, DeviceId to, std::int64_t bytes, std::int64_t tensors) const;

  const Graph& graph_;
  const Cluster& cluster_;
  const CostTable& costs_;
  std::size_t size_ = 0;
  std::vector<std::size_t> part_of_;   // by OpId; size_ where it is in none
  std::vector<std::size_t> speed_of_;  // by DeviceId
  std::vector<Speed> speeds_;
  std::array<std::vector<std::int64_t>, kNumBytes> bytes_;  // [size + 1]: of the parts before
  std::array<std::vector<std::int64_t>, kNumCrossings>
      crossing_bytes_;  // [size + 1]: between a part and the one before
  std::array<std::vector<std::int64_t>, kNumCrossings> crossing_tensors_;
  std::vector<RangeMax> backwards_;  // one: crossing_bytes_[kBackwards]
  std::vector<RangeMax> transient_;  // by ActionKind: the most that the ops of a part need beside what they keep
};

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_THROUGHPUT_PIPELINE_CHAIN_H_
