#ifndef EMPLACE_AGENTS_THROUGHPUT_CHAIN_PARTS_H_
#define EMPLACE_AGENTS_THROUGHPUT_CHAIN_PARTS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "agents/throughput/contiguous_units.h"
#include "sim/base/units.h"
#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/graph.h"
#include "sim/placement.h"
#include "sim/schedule/placed_pipeline.h"

// Times and memory of a chain of parts (pipeline_chain.h).
namespace emplace::agents {

// The largest of a run of numbers, asked often.
class RangeMax {
 public:
  explicit RangeMax(std::vector<std::int64_t> values);
  std::int64_t Of(std::size_t first, std::size_t end) const;  // 0 if the range is empty

 private:
  std::vector<std::vector<std::int64_t>> levels_;  // levels_[k][i]: the largest of 2^k from i on
};

// The part of each op. A part is a unit with forward ops, and the units without any that follow it.
struct ChainParts {
  std::size_t size = 0;
  std::vector<std::size_t> part_of;  // indexed by OpId; `size` where it is in none
};
ChainParts FindParts(const Cluster& cluster, const Placement& anywhere, const std::vector<PipelineRole>& roles,
                     const ContiguousUnits& units);

// Times on devices that are alike in times.
struct ChainSpeed {
  std::array<std::vector<std::int64_t>, 3> device;  // [size + 1] ns before a part; forward, input's part, weights'
  std::array<std::vector<std::int64_t>, 3> host;
  std::vector<std::int64_t> final_ops;
  std::vector<std::size_t> refused;  // [size + 1] ops before a part that may not run there
  Duration launch{};

  // Times of parts: forward, input's part or weights'.
  Duration Time(std::size_t action, std::size_t first, std::size_t end) const;
};
struct ChainSpeeds {
  std::vector<std::size_t> speed_of;  // indexed by DeviceId
  std::vector<ChainSpeed> speeds;

  const ChainSpeed& Of(DeviceId device) const { return speeds[speed_of[Index(device)]]; }
};
ChainSpeeds FindSpeeds(const Graph& graph, const Cluster& cluster, const CostTable& costs, const ChainParts& parts,
                       const std::vector<PipelineRole>& roles);

enum ChainBytesOf : std::uint8_t { kHeld, kGradients, kInputs, kUntilInput, kUntilWeight, kBetweenParts, kNumBytes };
enum BoundaryOf : std::uint8_t { kForwardOnly, kKept, kBackwards, kNumCrossings };
struct ChainBytes {
  std::array<std::vector<std::int64_t>, kNumBytes> bytes;               // [size + 1]: of the parts before
  std::array<std::vector<std::int64_t>, kNumCrossings> crossing_bytes;  // [size + 1]: between a part and the one before
  std::array<std::vector<std::int64_t>, kNumCrossings> crossing_tensors;

  std::int64_t Sum(ChainBytesOf what, std::size_t first, std::size_t end) const {
    return bytes[what][end] - bytes[what][first];
  }
};
ChainBytes FindBytes(const Graph& graph, const ChainParts& parts, const std::vector<PipelineRole>& roles);

// By ActionKind: the most that the ops of a part need beside what they keep. It is the peak of those that run together,
// in the order of ids, without what others read.
std::vector<RangeMax> FindTransient(const Graph& graph, const ChainParts& parts,
                                    const std::vector<PipelineRole>& roles);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_THROUGHPUT_CHAIN_PARTS_H_
