#include "agents/throughput/contiguous_units.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <set>
#include <string_view>
#include <utility>

#include "sim/base/check.h"

namespace emplace::agents {
namespace {

using UnitEdge = std::pair<std::size_t, std::size_t>;  // (from, to)

// Sets that merge; each is named by one of its members.
class MergingSets {
 public:
  explicit MergingSets(std::size_t count) : parent_(count) { std::iota(parent_.begin(), parent_.end(), 0); }
  std::size_t Find(std::size_t member) {
    while (parent_[member] != member) member = parent_[member] = parent_[parent_[member]];
    return member;
  }
  void Merge(std::size_t a, std::size_t b) { parent_[Find(a)] = Find(b); }

 private:
  std::vector<std::size_t> parent_;
};

// Whether each op is of the backward half. All are forward if none would be.
std::vector<bool> BackwardOps(const Graph& graph) {
  std::vector<bool> backward(graph.num_ops(), false);
  bool any_forward = false;
  for (std::size_t i = graph.num_ops(); i-- > 0;) {
    const auto op = MakeId<OpId>(i);
    const Pass pass = graph.op(op).pass;
    bool is_backward = pass == Pass::kBackward || pass == Pass::kUpdate;
    const auto ask = [&](std::span<const OpId> consumers) {
      for (const OpId consumer : consumers) is_backward = is_backward && backward[Index(consumer)];
    };
    for (std::size_t k = 0; is_backward && k < graph.num_outputs(op); ++k) {
      ask(graph.consumers(MakeId<TensorId>(Index(graph.first_output(op)) + k)));
    }
    ask(graph.control_consumers(op));
    backward[i] = is_backward;
    any_forward = any_forward || !is_backward;
  }
  if (!any_forward) backward.assign(graph.num_ops(), false);
  return backward;
}

// Without edges from a set to itself, and each edge once, ascending.
void Distinct(std::vector<UnitEdge>* edges) {
  std::erase_if(*edges, [](const UnitEdge& edge) { return edge.first == edge.second; });
  std::sort(edges->begin(), edges->end());
  edges->erase(std::unique(edges->begin(), edges->end()), edges->end());
}

// Distinct pairs of ops, data and control alike.
std::vector<UnitEdge> OpEdges(const Graph& graph) {
  std::vector<UnitEdge> edges;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const auto op = MakeId<OpId>(i);
    for (const TensorId tensor : graph.inputs(op)) edges.emplace_back(Index(graph.tensor(tensor).producer), i);
    for (const OpId other : graph.control_inputs(op)) edges.emplace_back(Index(other), i);
  }
  Distinct(&edges);
  return edges;
}

void JoinGradients(const Graph& graph, const std::vector<bool>& backward, MergingSets* sets) {
  std::vector<bool> has_forward(graph.num_ops(), false);
  std::map<std::string_view, std::size_t> last_forward;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    if (backward[i]) continue;
    has_forward[sets->Find(i)] = true;
    const std::string_view layer = graph.op(MakeId<OpId>(i)).layer;
    if (!layer.empty()) last_forward[layer] = i;
  }
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    if (!backward[i] || has_forward[sets->Find(i)]) continue;
    const auto found = last_forward.find(graph.op(MakeId<OpId>(i)).layer);
    if (found != last_forward.end()) sets->Merge(i, found->second);
  }
}

// The order of sets of ops: pairs of distinct sets, ascending.
std::vector<UnitEdge> SetEdges(const std::vector<UnitEdge>& op_edges, const std::vector<bool>& backward,
                               MergingSets* sets) {
  std::vector<bool> has_forward(backward.size(), false);
  for (std::size_t i = 0; i < backward.size(); ++i) {
    if (!backward[i]) has_forward[sets->Find(i)] = true;
  }
  std::vector<UnitEdge> edges;
  for (const auto& [from, to] : op_edges) {
    const std::size_t a = sets->Find(from);
    const std::size_t b = sets->Find(to);
    if (backward[from] != backward[to]) continue;
    if (!backward[from]) {
      edges.emplace_back(a, b);
    } else if (!has_forward[a] || !has_forward[b]) {
      edges.emplace_back(b, a);
    }
  }
  Distinct(&edges);
  return edges;
}

// The strongly connected component of each vertex, in no particular numbering (Tarjan 1972, without recursion).
std::vector<std::size_t> Components(std::size_t count, const std::vector<UnitEdge>& edges) {
  constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  std::vector<std::size_t> first(count + 1, 0);
  for (const UnitEdge& edge : edges) ++first[edge.first + 1];
  std::partial_sum(first.begin(), first.end(), first.begin());
  std::vector<std::size_t> component(count, kNone);
  std::vector<std::size_t> entered(count, kNone);
  std::vector<std::size_t> low(count, 0);
  std::vector<std::size_t> next(first.begin(), first.end() - 1);
  std::vector<std::size_t> path;
  std::vector<std::size_t> open;
  std::size_t clock = 0;
  std::size_t components = 0;
  for (std::size_t root = 0; root < count; ++root) {
    if (entered[root] != kNone) continue;
    path.push_back(root);
    while (!path.empty()) {
      const std::size_t at = path.back();
      if (entered[at] == kNone) {
        entered[at] = low[at] = clock++;
        open.push_back(at);
      }
      if (next[at] < first[at + 1]) {
        const std::size_t to = edges[next[at]++].second;
        if (entered[to] == kNone) {
          path.push_back(to);
        } else if (component[to] == kNone) {
          low[at] = std::min(low[at], entered[to]);
        }
        continue;
      }
      path.pop_back();
      if (!path.empty()) low[path.back()] = std::min(low[path.back()], low[at]);
      if (low[at] != entered[at]) continue;
      std::size_t member = kNone;
      do {
        member = open.back();
        open.pop_back();
        component[member] = components;
      } while (member != at);
      ++components;
    }
  }
  return component;
}

// The index of each op's layer, or kInvalidLayer. If ops of a layer may not run on the same devices, they count as
// separate layers.
constexpr std::size_t kInvalidLayer = std::numeric_limits<std::size_t>::max();
std::vector<std::size_t> LayerNumbers(const Graph& graph, const StageCosts& costs, std::size_t* num_layers) {
  std::map<std::pair<std::string_view, std::vector<bool>>, std::size_t> numbers;
  std::vector<std::size_t> layers;
  layers.reserve(graph.num_ops());
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const std::string_view layer = graph.op(MakeId<OpId>(i)).layer;
    std::vector<bool> may_run;
    for (const DeviceClass& of_class : costs.classes) may_run.push_back(!std::isnan(of_class.op_micros[i]));
    layers.push_back(layer.empty()
                         ? kInvalidLayer
                         : numbers.emplace(std::pair(layer, std::move(may_run)), numbers.size()).first->second);
  }
  *num_layers = numbers.size();
  return layers;
}

// The least time of an op on any class, in µs; 0 where it may run on none.
double LeastMicros(const StageCosts& costs, std::size_t op) {
  double least = std::numeric_limits<double>::infinity();
  for (const DeviceClass& of_class : costs.classes) {
    if (of_class.op_micros[op] < least) least = of_class.op_micros[op];
  }
  return std::isfinite(least) ? least : 0;
}

// Joins the ops of each layer. Where layers on a cycle take more than half of the total time, those with edges to the
// most others are kept apart, one by one, until the cycle takes less.
void JoinLayers(const Graph& graph, const std::vector<UnitEdge>& op_edges, const std::vector<bool>& backward,
                const StageCosts& costs, MergingSets* sets) {
  constexpr int kMostTries = 100;  // then all layers on cycles are left apart
  std::size_t num_layers = 0;
  const std::vector<std::size_t> layers = LayerNumbers(graph, costs, &num_layers);
  std::vector<bool> apart(num_layers, false);
  const auto is_joined = [&](std::size_t op) { return layers[op] != kInvalidLayer && !apart[layers[op]]; };
  for (int tries = 0;; ++tries) {
    MergingSets joined = *sets;
    std::vector<std::size_t> first(num_layers, kInvalidLayer);
    for (std::size_t op = 0; op < layers.size(); ++op) {
      if (!is_joined(op)) continue;
      if (first[layers[op]] == kInvalidLayer) first[layers[op]] = op;
      joined.Merge(op, first[layers[op]]);
    }
    const std::vector<std::size_t> components = Components(layers.size(), SetEdges(op_edges, backward, &joined));
    const auto component = [&](std::size_t op) { return components[joined.Find(op)]; };
    std::map<std::size_t, std::set<std::size_t>> on_cycle;  // joined layers, by component
    std::map<std::size_t, double> micros;                   // keyed by component
    double all_micros = 0;
    for (std::size_t op = 0; op < layers.size(); ++op) {
      if (is_joined(op)) on_cycle[component(op)].insert(layers[op]);
      const double least = LeastMicros(costs, op);
      micros[component(op)] += least;
      all_micros += least;
    }
    std::erase_if(on_cycle,
                  [&](const auto& entry) { return entry.second.size() < 2 || micros[entry.first] <= all_micros / 2; });
    if (on_cycle.empty()) {
      *sets = std::move(joined);
      return;
    }
    std::vector<std::set<std::size_t>> neighbours(num_layers);
    for (const auto& [from, to] : op_edges) {
      if (layers[from] == kInvalidLayer || layers[to] == kInvalidLayer || layers[from] == layers[to]) continue;
      if (component(from) != component(to)) continue;
      neighbours[layers[from]].insert(layers[to]);
      neighbours[layers[to]].insert(layers[from]);
    }
    for (const auto& entry : on_cycle) {
      const std::set<std::size_t>& cycle = entry.second;
      if (tries < kMostTries) {
        apart[*std::max_element(cycle.begin(), cycle.end(), [&](std::size_t a, std::size_t b) {
          return neighbours[a].size() < neighbours[b].size();
        })] = true;
      } else {
        for (const std::size_t layer : cycle) apart[layer] = true;
      }
    }
  }
}

bool IsFree(const StageCosts& costs, std::size_t op) {
  return std::all_of(costs.classes.begin(), costs.classes.end(),
                     [op](const DeviceClass& of_class) { return of_class.op_micros[op] == 0; });
}

void JoinFree(const std::vector<UnitEdge>& edges, const StageCosts& costs, MergingSets* sets) {
  const std::size_t count = costs.num_ops();
  std::vector<bool> is_free(count, true);
  for (std::size_t op = 0; op < count; ++op) {
    if (!IsFree(costs, op)) is_free[sets->Find(op)] = false;
  }
  std::vector<std::set<std::size_t>> neighbours(count);
  const auto join = [&](std::size_t a, std::size_t b) {
    if (a == b) return;
    neighbours[a].insert(b);
    neighbours[b].insert(a);
  };
  for (const auto& [from, to] : edges) join(from, to);
  for (const Crossing& crossing : costs.crossings) {
    if (std::all_of(crossing.micros.begin(), crossing.micros.end(), [](double micros) { return micros == 0; }))
      continue;
    for (const OpId consumer : crossing.consumers) {
      join(sets->Find(Index(crossing.producer)), sets->Find(Index(consumer)));
    }
  }
  std::vector<std::size_t> waiting;
  for (std::size_t set = count; set-- > 0;) {
    if (sets->Find(set) == set) waiting.push_back(set);
  }
  while (!waiting.empty()) {
    const std::size_t set = waiting.back();
    waiting.pop_back();
    if (!is_free[set] || neighbours[set].size() != 1) continue;
    const std::size_t into = *neighbours[set].begin();
    neighbours[set].clear();
    neighbours[into].erase(set);
    sets->Merge(set, into);
    waiting.push_back(into);
  }
}

// Takes sets depth first: after one, a set that it made ready. If it made several, the one with the smallest op first.
ContiguousUnits Number(std::size_t num_ops, const std::vector<UnitEdge>& edges, MergingSets* sets) {
  constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
  std::vector<std::size_t> smallest(num_ops, kNone);
  for (std::size_t op = num_ops; op-- > 0;) smallest[sets->Find(op)] = op;
  std::vector<std::vector<std::size_t>> after(num_ops);
  std::vector<std::size_t> missing(num_ops, 0);
  for (const auto& [from, to] : edges) {
    after[from].push_back(to);
    ++missing[to];
  }
  const auto by_smallest = [&](std::size_t a, std::size_t b) { return smallest[a] > smallest[b]; };
  std::vector<std::size_t> ready;
  for (std::size_t op = 0; op < num_ops; ++op) {
    if (sets->Find(op) == op && missing[op] == 0) ready.push_back(op);
  }
  std::sort(ready.begin(), ready.end(), by_smallest);
  std::vector<std::size_t> number(num_ops, kNone);
  ContiguousUnits units;
  while (!ready.empty()) {
    const std::size_t set = ready.back();
    ready.pop_back();
    number[set] = units.before.size();
    units.before.emplace_back();
    const std::size_t first = ready.size();
    for (const std::size_t later : after[set]) {
      if (--missing[later] == 0) ready.push_back(later);
    }
    std::sort(ready.begin() + static_cast<std::ptrdiff_t>(first), ready.end(), by_smallest);
  }
  for (const auto& [from, to] : edges) units.before[number[to]].push_back(number[from]);
  for (auto& before : units.before) std::sort(before.begin(), before.end());
  for (std::size_t op = 0; op < num_ops; ++op) {
    units.unit_of.push_back(number[sets->Find(op)]);
    EMPLACE_CHECK_LT(units.unit_of.back(), units.size());
  }
  return units;
}

}  // namespace

ContiguousUnits MakeContiguousUnits(const Graph& graph, const Grouping& grouping, const StageCosts& costs,
                                    const UnitOptions& options) {
  EMPLACE_CHECK_EQ(grouping.num_ops(), graph.num_ops());
  EMPLACE_CHECK_EQ(costs.num_ops(), graph.num_ops());
  MergingSets sets(graph.num_ops());
  for (std::size_t group = 0; group < grouping.num_groups(); ++group) {
    for (const OpId op : grouping.members(group)) sets.Merge(Index(op), Index(grouping.members(group)[0]));
  }
  const std::vector<bool> backward = BackwardOps(graph);
  const std::vector<UnitEdge> op_edges = OpEdges(graph);
  if (options.layers == LayerUnits::kTogether) JoinLayers(graph, op_edges, backward, costs, &sets);
  if (options.layers != LayerUnits::kApart) JoinGradients(graph, backward, &sets);
  const std::vector<std::size_t> components = Components(graph.num_ops(), SetEdges(op_edges, backward, &sets));
  std::map<std::size_t, std::size_t> of_component;
  for (std::size_t op = 0; op < graph.num_ops(); ++op) {
    const auto [member, added] = of_component.emplace(components[sets.Find(op)], op);
    if (!added) sets.Merge(op, member->second);
  }
  std::vector<UnitEdge> edges = SetEdges(op_edges, backward, &sets);
  if (options.join_free) {
    JoinFree(edges, costs, &sets);
    // Not asked of SetEdges again: a set of backward ops keeps its order where a forward op joined it.
    for (auto& [from, to] : edges) {
      from = sets.Find(from);
      to = sets.Find(to);
    }
    Distinct(&edges);
  }
  return Number(graph.num_ops(), edges, &sets);
}

}  // namespace emplace::agents
