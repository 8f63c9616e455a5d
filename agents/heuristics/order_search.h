#ifndef EMPLACE_AGENTS_HEURISTICS_ORDER_SEARCH_H_
#define EMPLACE_AGENTS_HEURISTICS_ORDER_SEARCH_H_

#include <cstddef>
#include <cstdint>
#include <functional>

#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/graph.h"
#include "sim/placement.h"

namespace emplace::agents {

struct OrderSearchOptions {
  std::size_t schedules = 20'000;  // at most so many are made
  std::uint64_t seed = 1;
  std::function<bool()> stop = {};  // asked now and then; may be empty
};

struct OrderedPlacement {
  Placement placement;
  PlacementOrder order;
  double micros = 0;        // by the search's own reckoning: transfers wait for nothing
  double bound_micros = 0;  // the longest chain of ops, and the work that the devices share: no schedule is shorter
};

// Searches placement and order together: lists of priorities, each of which makes a schedule (the ready op of the
// highest priority goes where it ends first; Kahn's levels as the first priorities, HLFET of Adam, Chandy and Dickson
// 1974), which are improved by forward and backward passes (Li and Willis 1992) and by random changes of a few
// priorities. Transfers take the time of their link and wait for nothing; the engine judges the result. Colocated ops
// go to one device. Ends when the bound is reached. Deterministic but for `stop`. Throws InputError if an op has no
// time on any device.
OrderedPlacement FindOrder(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                           const OrderSearchOptions& options);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_HEURISTICS_ORDER_SEARCH_H_
