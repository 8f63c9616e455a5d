#ifndef EMPLACE_AGENTS_BOUNDS_RELAXATION_H_
#define EMPLACE_AGENTS_BOUNDS_RELAXATION_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/graph.h"

namespace emplace::agents {

// More than any sum of times: "it cannot be".
inline constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max() / 4;

// The data of a problem that every lower bound reads, with all times in ns as `fifo` rounds them (docs/model.md, F1).
// Devices that are alike to every bound, of one kind and one op gap, form a type. A transfer from a device of type s to
// another of type t takes at least the shortest time of all such pairs. Contention and devices without a copy engine
// only lengthen a step, and are left out.
class Relaxation {
 public:
  enum class Types { kAlike, kEachDevice };
  // kEachDevice: every device is a type of its own, in the order of the cluster.
  Relaxation(const Graph& graph, const Cluster& cluster, const CostTable& costs, Types types = Types::kAlike);

  struct Type {
    std::vector<DeviceId> devices;
    std::int64_t op_gap = 0;
  };
  // An op that must end before another: all tensors between the two, and control edges.
  struct Edge {
    std::uint32_t from = 0;
    std::uint32_t to = 0;
  };

  std::size_t num_ops() const { return num_ops_; }
  std::size_t num_types() const { return types_.size(); }
  std::size_t num_devices() const { return num_devices_; }
  std::span<const Type> types() const { return types_; }
  // kNever where the op may not go.
  std::int64_t Time(std::size_t op, std::size_t type) const { return times_[op * types_.size() + type]; }
  // The least over all types, whatever SetTime() says later.
  std::int64_t ShortestTime(std::size_t op) const { return shortest_[op]; }
  // Forbids the op a type, with kNever, or allows it again. Requires: not below the time that it was built with.
  void SetTime(std::size_t op, std::size_t type, std::int64_t nanos) { times_[op * types_.size() + type] = nanos; }
  // How long the device is idle after the op: 0 after an op of time 0.
  std::int64_t Gap(std::size_t op, std::size_t type) const { return Time(op, type) == 0 ? 0 : types_[type].op_gap; }

  std::span<const Edge> edges() const { return edges_; }  // by (to, from)
  // Positions in edges().
  std::span<const std::uint32_t> in(std::size_t op) const { return Slice(in_, in_begin_, op); }
  std::span<const std::uint32_t> out(std::size_t op) const { return Slice(out_, out_begin_, op); }
  // The least time from the end of edge.from on a device of type s to the arrival of all that edge.to waits for, on
  // another device, of type t. Tensors of one op to one device share a channel, so their times add up. kNever where
  // both ops are of one colocation class, or no such pair of devices is joined.
  std::int64_t Transfer(std::size_t edge, std::size_t s, std::size_t t) const {
    return transfers_[(edge * types_.size() + s) * types_.size() + t];
  }
  std::int64_t ShortestTransfer(std::size_t edge) const { return shortest_transfer_[edge]; }
  // The least time between the end of edge.from and the start of edge.to, wherever they are.
  std::int64_t ShortestStep(std::size_t edge) const { return shortest_step_[edge]; }

 private:
  static std::span<const std::uint32_t> Slice(const std::vector<std::uint32_t>& values,
                                              const std::vector<std::uint32_t>& begin, std::size_t at) {
    return std::span(values).subspan(begin[at], begin[at + 1] - begin[at]);
  }
  void IndexEdges();

  std::size_t num_ops_ = 0;
  std::size_t num_devices_ = 0;
  std::vector<Type> types_;
  std::vector<std::int64_t> times_;     // [num_ops][num_types]
  std::vector<std::int64_t> shortest_;  // [num_ops]
  std::vector<Edge> edges_;
  std::vector<std::int64_t> transfers_;          // [edges][num_types][num_types]
  std::vector<std::int64_t> shortest_transfer_;  // [edges]
  std::vector<std::int64_t> shortest_step_;      // [edges]
  std::vector<std::uint32_t> in_, in_begin_, out_, out_begin_;
};

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_BOUNDS_RELAXATION_H_
