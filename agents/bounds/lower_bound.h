#ifndef EMPLACE_AGENTS_BOUNDS_LOWER_BOUND_H_
#define EMPLACE_AGENTS_BOUNDS_LOWER_BOUND_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "agents/bounds/branch_and_bound.h"
#include "sim/bounds.h"
#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/formats/result_json.h"
#include "sim/graph.h"
#include "sim/placement.h"

namespace emplace::agents {

// A lower bound for all placements, and the argument that proves it.
struct Bound {
  std::string_view method;
  std::int64_t nanos = 0;
};

// The names of the arguments beside those of sim/bounds.h, from weakest to strongest where they usually come in that
// order.
inline constexpr std::string_view kIssueBound = "issue lanes";
inline constexpr std::string_view kPathBound = "critical path with transfers";
inline constexpr std::string_view kEnergeticBound = "energetic";
inline constexpr std::string_view kLinearProgramBound = "linear program";
inline constexpr std::string_view kPricedEnergeticBound = "energetic with the linear program's prices";
inline constexpr std::string_view kExactBound = "branch and bound";

// The largest; of equals the first.
const Bound& Best(const std::vector<Bound>& bounds);

// Whether the critical path and the work are the only arguments that hold for the engine: it has other rules than those
// that the stronger ones rely on. Source: docs/model.md, B4.
bool HasOnlySimpleBounds(std::string_view engine);

// The bounds that take roughly linear time in the graph: 0.1 s for 10,000 ops. They hold for every placement, also for
// one that does not fit in memory. Source: docs/model.md, B1 to B8 and B11.
std::vector<Bound> QuickBounds(const Graph& graph, const Cluster& cluster, const CostTable& costs);

// The lower bound of results: the best of QuickBounds(), or the simple one of sim/bounds.h where no other holds for the
// engine.
struct LowerBound {
  double micros = 0;
  std::string_view method;
};
LowerBound FindLowerBound(const Graph& graph, const Cluster& cluster, const CostTable& costs, std::string_view engine);
// Makes it that of a report, unless the report's step has a schedule or is none: then it has its own.
void AddLowerBound(const Graph& graph, const Cluster& cluster, const CostTable& costs, StepReport* report);

// Whether there are few enough colocation classes and devices for branch and bound.
bool CanBeExact(const Graph& graph, const Cluster& cluster);

struct BoundOptions {
  SimOptions simulation = {};           // options of the steps to bound
  double seconds = 60;                  // time limit of the linear program and of branch and bound
  std::optional<Placement> start = {};  // a good placement
  std::function<bool(const ExactProgress&)> keep_going = {};  // called by branch and bound; may be empty
};

struct BoundReport {
  std::vector<Bound> bounds;      // all that were tried, in the order of trial
  bool fits = true;               // false: it is proved that no placement fits in memory
  bool optimal = false;           // `best` is proved to be as fast as any
  std::optional<Placement> best;  // the fastest that is known and fits
  std::int64_t best_nanos = 0;
  std::size_t nodes = 0;  // nodes visited by branch and bound; 0 if it was not tried
};

// Quick bounds, then the linear program where device types or memory give it something to say, then branch and bound
// where there are few enough classes; only the simple bounds for an engine that has no others. The last two hold for
// placements that fit in memory. Requires: no contention factors below 1 (there are none). Throws InputError as
// SolveProgram does.
BoundReport ProveBound(const Graph& graph, const Cluster& cluster, const CostTable& costs, const BoundOptions& options);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_BOUNDS_LOWER_BOUND_H_
