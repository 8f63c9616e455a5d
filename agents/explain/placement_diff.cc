#include "agents/explain/placement_diff.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <string_view>
#include <tuple>
#include <utility>

#include "agents/explain/changes.h"
#include "agents/score.h"
#include "sim/base/check.h"

namespace emplace::agents {
namespace {

// Sets of ops that grow together.
class DisjointOps {
 public:
  explicit DisjointOps(std::size_t num_ops) : parent_(num_ops) { std::iota(parent_.begin(), parent_.end(), 0U); }
  // The smallest op of the set.
  std::uint32_t Find(OpId op) {
    auto at = static_cast<std::uint32_t>(op);
    while (parent_[at] != at) at = parent_[at] = parent_[parent_[at]];
    return at;
  }
  void Join(OpId a, OpId b) {
    const std::uint32_t one = Find(a);
    const std::uint32_t other = Find(b);
    parent_[std::max(one, other)] = std::min(one, other);
  }

 private:
  std::vector<std::uint32_t> parent_;
};

std::vector<DiffPiece> FindPieces(const Graph& graph, const Placement& a, const Placement& b, DiffBy by) {
  DisjointOps sets(graph.num_ops());
  const auto join = [&](OpId one, OpId other) {
    if (a[one] == a[other] && b[one] == b[other]) sets.Join(one, other);
  };
  std::map<std::tuple<std::string_view, DeviceId, DeviceId>, OpId> layers;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const OpId op = MakeId<OpId>(i);
    if (a[op] == b[op]) continue;
    if (by == DiffBy::kLayer && !graph.op(op).layer.empty()) {
      join(op, layers.try_emplace({graph.op(op).layer, a[op], b[op]}, op).first->second);
      join(op, graph.colocation_class(op));
      continue;
    }
    for (const TensorId input : graph.inputs(op)) join(op, graph.tensor(input).producer);
    for (const OpId producer : graph.control_inputs(op)) join(op, producer);
    join(op, graph.colocation_class(op));
  }
  std::vector<DiffPiece> pieces;
  std::vector<std::size_t> piece_of(graph.num_ops());
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const OpId op = MakeId<OpId>(i);
    if (a[op] == b[op]) continue;
    const std::size_t first = sets.Find(op);
    if (first == i) {
      piece_of[i] = pieces.size();
      pieces.push_back({.ops = {}, .from = a[op], .to = b[op], .alone = {}, .cumulative = {}});
    }
    pieces[piece_of[first]].ops.push_back(op);
  }
  return pieces;
}

// Joins all but the largest into one piece at the end. Returns how many it stands for.
std::size_t JoinSmallOnes(const CostTable& costs, const Placement& a, std::size_t most,
                          std::vector<DiffPiece>* pieces) {
  if (pieces->size() <= most) return 0;
  const auto time = [&](const DiffPiece& piece) {
    double micros = 0;
    for (const OpId op : piece.ops) micros += costs.Micros(op, a[op]);
    return micros;
  };
  std::vector<std::pair<double, std::size_t>> order;
  for (std::size_t i = 0; i < pieces->size(); ++i) order.emplace_back(-time((*pieces)[i]), i);
  std::sort(order.begin(), order.end());
  std::vector<DiffPiece> kept;
  DiffPiece rest;
  for (std::size_t i = 0; i < order.size(); ++i) {
    DiffPiece& piece = (*pieces)[order[i].second];
    if (i + 1 < most) {
      kept.push_back(std::move(piece));
    } else {
      rest.ops.insert(rest.ops.end(), piece.ops.begin(), piece.ops.end());
    }
  }
  std::sort(rest.ops.begin(), rest.ops.end());
  kept.push_back(std::move(rest));
  const std::size_t joined = pieces->size() - (most - 1);
  *pieces = std::move(kept);
  return joined;
}

}  // namespace

PlacementDiff DiffPlacements(const Graph& graph, const Cluster& cluster, const CostTable& costs, const Placement& a,
                             const Placement& b, const Evaluator& evaluator, std::size_t max_pieces, DiffBy by,
                             const OnSimulations& on_simulations) {
  EMPLACE_CHECK_EQ(a.num_ops(), graph.num_ops());
  EMPLACE_CHECK_EQ(b.num_ops(), graph.num_ops());
  EMPLACE_CHECK_GE(max_pieces, 1U);
  const Changes changes(graph, cluster, costs);
  const auto workspace = evaluator.MakeWorkspace();
  StepResult result;
  PlacementDiff diff;
  std::size_t simulated = 0;
  const auto simulate = [&](const Placement& placement) {
    if (on_simulations && !diff.pieces.empty()) on_simulations(++simulated, 2 * diff.pieces.size());
    evaluator.RunWith(*workspace, placement, &result);
    return DiffStep{result.step_time_micros, ScoreOf({.result = result, .reward = 0}, cluster).overflow_bytes};
  };

  diff.a = simulate(a);
  diff.b = simulate(b);
  diff.pieces = FindPieces(graph, a, b, by);
  diff.joined_pieces = JoinSmallOnes(costs, a, max_pieces, &diff.pieces);
  Placement changed = a;
  for (DiffPiece& piece : diff.pieces) {
    diff.moved_ops += piece.ops.size();
    for (const OpId op : piece.ops) changed[op] = b[op];
    if (changes.CanRun(changed, piece.ops)) piece.alone = simulate(changed);
    for (const OpId op : piece.ops) changed[op] = a[op];
  }
  const auto listed_end = diff.pieces.end() - (diff.joined_pieces > 0 ? 1 : 0);
  const auto micros = [](const DiffPiece& piece) {
    return piece.alone ? piece.alone->step_time_micros : std::numeric_limits<double>::infinity();
  };
  std::stable_sort(diff.pieces.begin(), listed_end,
                   [&](const DiffPiece& x, const DiffPiece& y) { return micros(x) < micros(y); });
  // The pieces moved so far may lack a link that only a later piece makes unnecessary, so all of them are checked.
  std::vector<OpId> moved;
  bool could_run = true;
  for (DiffPiece& piece : diff.pieces) {
    for (const OpId op : piece.ops) changed[op] = b[op];
    moved.insert(moved.end(), piece.ops.begin(), piece.ops.end());
    could_run = could_run ? changes.CanRun(changed, piece.ops) : changes.CanRun(changed, moved);
    if (could_run) piece.cumulative = simulate(changed);
  }
  return diff;
}

}  // namespace emplace::agents
