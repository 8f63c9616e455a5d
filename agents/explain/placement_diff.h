#ifndef EMPLACE_AGENTS_EXPLAIN_PLACEMENT_DIFF_H_
#define EMPLACE_AGENTS_EXPLAIN_PLACEMENT_DIFF_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "agents/explain/moves.h"
#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/evaluator.h"
#include "sim/graph.h"
#include "sim/placement.h"

namespace emplace::agents {

// A simulated step of a placement between two others.
struct DiffStep {
  double step_time_micros = 0;
  double overflow_bytes = 0;  // memory beyond capacities, summed over devices
};

// Besides colocation, the relation that joins ops that move between the same two devices.
enum class DiffBy : std::uint8_t {
  kConnection,  // inputs and control inputs
  kLayer,       // their layer; inputs and control inputs where an op has none
};

// Ops that go from one device to another together.
struct DiffPiece {
  std::vector<OpId> ops;  // ascending; colocation classes are whole
  // None for the one piece that stands for all that are not listed separately.
  std::optional<DeviceId> from;
  std::optional<DeviceId> to;
  // Nothing where the changed placement cannot run, for lack of a link.
  std::optional<DiffStep> alone;       // only this piece moved
  std::optional<DiffStep> cumulative;  // this piece moved, and all before it
};

// From placement a to placement b.
struct PlacementDiff {
  DiffStep a;
  DiffStep b;
  std::size_t moved_ops = 0;
  // In the order of `cumulative`: by descending gain alone, pieces that cannot run alone last, and the one that
  // stands for several behind them. The last one's `cumulative` is `b`.
  std::vector<DiffPiece> pieces;
  std::size_t joined_pieces = 0;  // number of pieces that the last entry combines; 0: all are listed separately
};

// Splits the difference of two placements into pieces and simulates each alone and all of them one after another. Tells
// at most `max_pieces` apart: those whose ops take longest; at least 1. Simulates two placements for each and two more.
// `evaluator` answers with peak memory.
// Requires: both placements pass CheckPlacement.
PlacementDiff DiffPlacements(const Graph& graph, const Cluster& cluster, const CostTable& costs, const Placement& a,
                             const Placement& b, const Evaluator& evaluator, std::size_t max_pieces,
                             DiffBy by = DiffBy::kConnection, const OnSimulations& on_simulations = {});

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_EXPLAIN_PLACEMENT_DIFF_H_
