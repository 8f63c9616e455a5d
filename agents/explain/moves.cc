#include "agents/explain/moves.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "agents/explain/changes.h"
#include "agents/score.h"
#include "sim/base/check.h"

namespace emplace::agents {
namespace {

constexpr std::size_t kLeastSlackOps = 200;
constexpr double kLittleSlack = 0.02;  // relative to the step time

// Ops that move together, and how much of the chain they account for.
struct Unit {
  MoveUnit kind = MoveUnit::kOp;
  std::vector<OpId> ops;
  double weight = 0;  // ns
};

class Units {
 public:
  Units(const Graph& graph, const Changes& changes, const Placement& placement, const StepExplanation& explained,
        std::size_t most)
      : graph_(graph),
        changes_(changes),
        placement_(placement),
        explained_(explained),
        most_(most),
        weight_(graph.num_ops(), 0) {}

  // The units in the order in which they are tried, each set of ops once. *left_out: how many there are beyond.
  std::vector<Unit> Make(std::size_t* left_out) {
    WeighOps();
    std::vector<std::vector<Unit>> lists;
    lists.push_back(Classes());
    lists.push_back(Pieces());
    lists.push_back(Layers());
    lists.push_back(LittleSlack());
    std::size_t longest = 0;
    for (std::vector<Unit>& list : lists) {
      std::stable_sort(list.begin(), list.end(), [](const Unit& a, const Unit& b) { return a.weight > b.weight; });
      if (list.size() > most_) {
        *left_out += list.size() - most_;
        list.resize(most_);
      }
      longest = std::max(longest, list.size());
    }
    std::vector<Unit> units;
    std::set<std::vector<OpId>> seen;
    for (std::size_t i = 0; i < longest; ++i) {
      for (std::vector<Unit>& list : lists) {
        if (i >= list.size() || !seen.insert(list[i].ops).second) continue;
        units.push_back(std::move(list[i]));
      }
    }
    return units;
  }

 private:
  void Weigh(OpId op, Duration time) {
    double& weight = weight_[Index(op)];
    if (weight == 0) weighed_.push_back(op);
    weight += static_cast<double>(time.count());
  }

  // A part of the chain weighs on all whose move could shorten it: the op that runs or sends, and what waits for it.
  void WeighOps() {
    for (const ChainPart& part : explained_.chain) {
      if (part.kind == ChainKind::kGap) continue;
      Weigh(part.item.op, part.length());
      if (part.waiter) Weigh(part.waiter->op, part.length());
      if (part.kind != ChainKind::kTransfer || !part.item.tensor) continue;
      for (const OpId reader : graph_.consumers(*part.item.tensor)) {
        if (placement_[reader] == part.item.to) Weigh(reader, part.length());
      }
    }
  }

  double WeightOf(const std::vector<OpId>& ops) const {
    double sum = 0;
    for (const OpId op : ops) sum += weight_[Index(op)];
    return sum;
  }
  Unit MakeUnit(MoveUnit kind, std::span<const OpId> ops) const {
    std::vector<OpId> all = changes_.WithClasses(ops);
    const double weight = WeightOf(all);
    return {kind, std::move(all), weight};
  }
  MoveUnit KindOfClass(OpId op) const {
    return changes_.ClassOf(op).size() > 1 ? MoveUnit::kColocationClass : MoveUnit::kOp;
  }

  std::vector<Unit> Classes() const {
    std::vector<Unit> units;
    std::set<OpId> done;
    for (const OpId op : weighed_) {
      if (!done.insert(graph_.colocation_class(op)).second) continue;
      units.push_back(MakeUnit(KindOfClass(op), std::span(&op, 1)));
    }
    return units;
  }

  // Runs of the chain on one device, their halves, the halves of these, and so on.
  std::vector<Unit> Pieces() const {
    std::vector<Unit> units;
    std::vector<OpId> run;
    const auto finish = [&] {
      AddHalves(run, &units);
      run.clear();
    };
    for (const ChainPart& part : explained_.chain) {
      if (part.kind == ChainKind::kGap) continue;
      if (!run.empty() && (part.item.is_transfer || part.item.device != placement_[run.back()])) finish();
      if (part.item.is_transfer || (!run.empty() && run.back() == part.item.op)) continue;
      run.push_back(part.item.op);
    }
    finish();
    return units;
  }
  void AddHalves(std::span<const OpId> run, std::vector<Unit>* units) const {
    if (run.size() < 2) return;
    units->push_back(MakeUnit(MoveUnit::kChainPiece, run));
    AddHalves(run.first(run.size() / 2), units);
    AddHalves(run.subspan(run.size() / 2), units);
  }

  std::vector<Unit> Layers() const {
    std::map<std::pair<std::string_view, DeviceId>, std::vector<OpId>> layers;
    for (const OpId op : weighed_) {
      if (!graph_.op(op).layer.empty()) layers[{graph_.op(op).layer, placement_[op]}];
    }
    for (std::size_t i = 0; i < graph_.num_ops() && !layers.empty(); ++i) {
      const OpId op = MakeId<OpId>(i);
      const auto found = layers.find({graph_.op(op).layer, placement_[op]});
      if (found != layers.end()) found->second.push_back(op);
    }
    std::vector<Unit> units;
    units.reserve(layers.size());
    for (const auto& [layer, ops] : layers) {
      units.push_back(MakeUnit(ops.size() > 1 ? MoveUnit::kLayer : KindOfClass(ops[0]), ops));
    }
    return units;
  }

  // Ops beside the chain that hold it up as soon as they are a little later; those that take longest first.
  std::vector<Unit> LittleSlack() const {
    const double little = kLittleSlack * static_cast<double>(explained_.step_time.count());
    std::vector<OpId> ops;
    for (std::size_t i = 0; i < graph_.num_ops(); ++i) {
      const OpId op = MakeId<OpId>(i);
      if (weight_[i] == 0 && static_cast<double>(explained_.slack[i].count()) <= little) ops.push_back(op);
    }
    const auto time = [&](OpId op) { return explained_.duration[Index(op)]; };
    std::stable_sort(ops.begin(), ops.end(), [&](OpId a, OpId b) { return time(a) > time(b); });
    if (ops.size() > kLeastSlackOps) ops.resize(kLeastSlackOps);
    std::vector<Unit> units;
    units.reserve(ops.size());
    for (const OpId op : ops) {
      Unit unit = MakeUnit(KindOfClass(op), std::span(&op, 1));
      unit.weight = static_cast<double>(time(op).count());
      units.push_back(std::move(unit));
    }
    return units;
  }

  const Graph& graph_;
  const Changes& changes_;
  const Placement& placement_;
  const StepExplanation& explained_;
  const std::size_t most_;
  std::vector<double> weight_;  // [num_ops], ns
  std::vector<OpId> weighed_;   // those with a weight, as they come on the chain
};

// The devices other than the unit's own: first those with most of its producers and readers.
std::vector<DeviceId> Destinations(const Graph& graph, const Cluster& cluster, const Placement& placement,
                                   const Unit& unit) {
  std::vector<std::size_t> neighbours(cluster.num_devices(), 0);
  for (const OpId op : unit.ops) {
    for (const TensorId input : graph.inputs(op)) ++neighbours[Index(placement[graph.tensor(input).producer])];
    for (std::size_t k = 0; k < graph.num_outputs(op); ++k) {
      for (const OpId reader : graph.consumers(MakeId<TensorId>(Index(graph.first_output(op)) + k))) {
        ++neighbours[Index(placement[reader])];
      }
    }
  }
  std::vector<DeviceId> devices;
  for (std::size_t d = 0; d < cluster.num_devices(); ++d) {
    if (MakeId<DeviceId>(d) != placement[unit.ops[0]]) devices.push_back(MakeId<DeviceId>(d));
  }
  std::stable_sort(devices.begin(), devices.end(),
                   [&](DeviceId a, DeviceId b) { return neighbours[Index(a)] > neighbours[Index(b)]; });
  return devices;
}

}  // namespace

std::string_view Name(MoveUnit unit) {
  static constexpr std::string_view kNames[] = {"op", "colocation_class", "chain_piece", "layer"};
  return kNames[static_cast<std::size_t>(unit)];
}

MoveResults FindMoves(const Graph& graph, const Cluster& cluster, const CostTable& costs, const Placement& placement,
                      const StepExplanation& explained, const Evaluator& evaluator, std::size_t max_simulations,
                      const OnSimulations& on_simulations) {
  EMPLACE_CHECK_EQ(explained.slack.size(), graph.num_ops());
  MoveResults results;
  if (cluster.num_devices() < 2) return results;
  const Changes changes(graph, cluster, costs);
  const std::vector<Unit> units = Units(graph, changes, placement, explained, max_simulations).Make(&results.not_tried);
  std::vector<std::vector<DeviceId>> destinations;
  destinations.reserve(units.size());
  for (const Unit& unit : units) destinations.push_back(Destinations(graph, cluster, placement, unit));

  const auto workspace = evaluator.MakeWorkspace();
  StepResult result;
  evaluator.RunWith(*workspace, placement, &result);
  const double before_micros = result.step_time_micros;
  const double before_overflow = ScoreOf({.result = result, .reward = 0}, cluster).overflow_bytes;
  Placement changed = placement;
  const std::size_t total = std::min(max_simulations, units.size() * (cluster.num_devices() - 1));
  for (std::size_t rank = 0; rank + 1 < cluster.num_devices(); ++rank) {
    for (std::size_t u = 0; u < units.size(); ++u) {
      const std::vector<OpId>& ops = units[u].ops;
      Move move{.unit = units[u].kind, .ops = ops, .from = placement[ops[0]], .to = destinations[u][rank]};
      for (const OpId op : ops) changed[op] = move.to;
      if (!changes.CanRun(changed, ops)) {
        // Nothing to simulate.
      } else if (results.simulated == max_simulations) {
        ++results.not_tried;
      } else {
        ++results.simulated;
        if (on_simulations) on_simulations(results.simulated, total);
        evaluator.RunWith(*workspace, changed, &result);
        move.step_time_micros = result.step_time_micros;
        move.gain_micros = before_micros - result.step_time_micros;
        move.overflow_bytes = ScoreOf({.result = result, .reward = 0}, cluster).overflow_bytes;
        if (move.overflow_bytes > before_overflow) {
          ++results.over_memory;
        } else if (move.gain_micros > 0) {
          results.gains.push_back(std::move(move));
        }
      }
      for (const OpId op : ops) changed[op] = placement[op];
    }
  }
  std::stable_sort(results.gains.begin(), results.gains.end(),
                   [](const Move& a, const Move& b) { return a.gain_micros > b.gain_micros; });
  return results;
}

}  // namespace emplace::agents
