#ifndef EMPLACE_AGENTS_THROUGHPUT_CONTIGUOUS_UNITS_H_
#define EMPLACE_AGENTS_THROUGHPUT_CONTIGUOUS_UNITS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "agents/throughput/stage_costs.h"
#include "sim/graph.h"
#include "sim/grouping.h"

namespace emplace::agents {

// The units that a contiguous split divides: sets of ops that share a device, and their order.
struct ContiguousUnits {
  std::vector<std::size_t> unit_of;              // [num_ops]
  std::vector<std::vector<std::size_t>> before;  // [num_units]: units directly before, ascending; before[u][i] < u

  std::size_t size() const { return before.size(); }
};

// How the layers of ops are combined.
enum class LayerUnits : std::uint8_t {
  kApart,      // nothing
  kGradients,  // backward ops that share no group with a forward op, with the last forward op of their layer
  kTogether,   // all ops of a layer, but as kGradients for some layers of a cycle that takes over half of all time
};

struct UnitOptions {
  LayerUnits layers = LayerUnits::kTogether;
  // A unit that takes no time and has one neighbour joins it. No split gets worse by that, but its memory may.
  bool join_free = true;
};

// The groups of `grouping`, made fit for contiguous splits.
//   The backward half: ops of the backward pass and updates, but those that a forward op waits for. Only the forward
// half has to be contiguous; a backward op is where its group is, on the way back through the pipeline.
//   The order: edges between forward ops. Where a group has backward ops only, their edges count too, in reverse: so
//   the
// way back leads through the same devices.
//   Groups on a cycle of that order become one unit.
// Units are numbered in a topological order, depth first. Throws nothing.
// Source: Tarnawski et al. 2020, on training; the program throughput-dp, which names these steps contraction of colour
// classes, artificial forward nodes, strongly connected components and, for kTogether, of layers; kApart is its
// default. Ours are kGradients and the condition of join_free (there, edges of the backward half are not asked about,
// and times up to 1e-6 ms count as none).
ContiguousUnits MakeContiguousUnits(const Graph& graph, const Grouping& grouping, const StageCosts& costs,
                                    const UnitOptions& options = {});

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_THROUGHPUT_CONTIGUOUS_UNITS_H_
