#ifndef EMPLACE_AGENTS_EXPLAIN_MOVES_H_
#define EMPLACE_AGENTS_EXPLAIN_MOVES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/evaluator.h"
#include "sim/graph.h"
#include "sim/placement.h"
#include "sim/step_explanation.h"

namespace emplace::agents {

// The unit of a move.
enum class MoveUnit : std::uint8_t {
  kOp,
  kColocationClass,  // several ops that `colocate_with` ties together
  kChainPiece,       // ops that follow each other on the critical chain, on one device
  kLayer,            // the ops of a layer that are on one device
};
std::string_view Name(MoveUnit unit);  // "op", "colocation_class", "chain_piece", "layer"

// A change of a placement: some ops, all on one device, go to another.
struct Move {
  MoveUnit unit = MoveUnit::kOp;
  std::vector<OpId> ops;  // ascending; colocation classes are whole
  DeviceId from{};
  DeviceId to{};
  double step_time_micros = 0;  // simulated, after the move
  double gain_micros = 0;       // reduction of the step time
  double overflow_bytes = 0;    // memory beyond capacities after the move, summed over devices
};

// Called after each simulation with their number and how many there will be at most.
using OnSimulations = std::function<void(std::size_t done, std::size_t total)>;

struct MoveResults {
  std::vector<Move> gains;    // those that make the step shorter, by descending gain; ties in the order of trying
  std::size_t simulated = 0;  // moves
  std::size_t over_memory =
      0;  // simulated moves that are left out of `gains` because they increase the memory beyond capacities
  std::size_t not_tried = 0;  // at least this many further moves, beyond the limit
};

// Simulates moves of a placement, one at a time, each from `placement` itself. Moved are ops, colocation classes and
// layers that are on the critical chain, pieces of the chain on one device, in halves of halves too, and ops with the
// least slack; to every device on which all of them have a time and for whose tensors there are links, devices of
// neighbours first. Moves that give the same placement are tried once. What takes most of the chain comes
// first, so that a limit cuts off what matters least. Deterministic.
//
// `explained` is of `placement`, and `evaluator` answers as the engine that it explains, with peak memory.
MoveResults FindMoves(const Graph& graph, const Cluster& cluster, const CostTable& costs, const Placement& placement,
                      const StepExplanation& explained, const Evaluator& evaluator, std::size_t max_simulations,
                      const OnSimulations& on_simulations = {});

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_EXPLAIN_MOVES_H_
