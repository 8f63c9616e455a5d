#ifndef EMPLACE_AGENTS_BOUNDS_BRANCH_AND_BOUND_H_
#define EMPLACE_AGENTS_BOUNDS_BRANCH_AND_BOUND_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/graph.h"
#include "sim/placement.h"
#include "sim/simulator.h"

namespace emplace::agents {

struct ExactProgress {
  std::size_t nodes = 0;             // partial placements whose bound was computed
  std::int64_t bound_nanos = 0;      // current lower bound for placements that fit
  std::optional<std::int64_t> best;  // step time of the best that fits, in ns
};

struct ExactOptions {
  SimOptions simulation = {};               // options for complete placements; the engine is fifo or flow
  std::optional<Placement> start = {};      // a good placement, which makes the search shorter
  std::size_t max_nodes = ~std::size_t{0};  // stops after this many
  std::function<bool(const ExactProgress&)> keep_going = {};  // asked now and then; may be empty
};

struct ExactResult {
  std::optional<Placement> best;  // none: nothing that fits was found
  std::int64_t best_nanos = 0;    // its step time
  std::int64_t bound_nanos = 0;   // no placement that fits is faster
  bool is_complete = false;       // nothing is left to try: `best` is optimal, or nothing fits
  std::size_t nodes = 0;
  std::size_t simulated = 0;
};

// Branch and bound over the placements of colocation classes, depth first; a simulator judges whole placements. A
// partial placement is cut off if no completion can beat the best: by the heads and tails of path_bound.h with what is
// placed so far, by the work of each device and the transfers of each channel as one machine with heads and tails
// (Jackson's preemptive schedule; Carlier 1982), by all work over all devices, or by persistent bytes. Of devices that
// are alike, partial placements use the first ones first; whole placements are simulated with every exchange of such
// devices, for ties in the engine go by device (docs/model.md, F11). Deterministic but for `keep_going`. Derivation:
// docs/model.md, B10. Practical up to some 30 classes on few devices.
ExactResult BranchAndBound(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                           const ExactOptions& options);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_BOUNDS_BRANCH_AND_BOUND_H_
