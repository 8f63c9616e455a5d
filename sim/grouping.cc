#include "sim/grouping.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <unordered_map>
#include <utility>

#include "sim/base/check.h"

namespace emplace {
namespace {

// Union of sets of ops; the smallest op id represents its set.
class OpSets {
 public:
  explicit OpSets(std::size_t num_ops) : parent_(num_ops) { std::iota(parent_.begin(), parent_.end(), std::size_t{0}); }
  std::size_t Find(std::size_t op) {
    while (parent_[op] != op) op = parent_[op] = parent_[parent_[op]];
    return op;
  }
  void Join(std::size_t a, std::size_t b) {
    a = Find(a);
    b = Find(b);
    parent_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<std::size_t> parent_;
};

// The layer on which a group's ops spend most of their time; ties go to the smaller name.
std::string MainLayer(const Graph& graph, const CostTable& costs, std::span<const OpId> members) {
  std::map<std::string_view, double> micros;
  for (const OpId op : members) {
    double time = 1e-9;  // positive, so that ops without time count too
    for (std::size_t kind = 0; kind < costs.num_kinds(); ++kind) {
      if (!std::isnan(costs.KindMicros(op, kind))) time += costs.KindMicros(op, kind);
    }
    micros[graph.op(op).layer] += time;
  }
  const auto longest =
      std::max_element(micros.begin(), micros.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return longest == micros.end() ? "" : std::string(longest->first);
}

// The distinct kinds of a cluster's devices, each with one device of the kind: an accelerator if there is one
// (CostTable::Without may leave a CPU of the same kind without times).
std::map<std::string_view, DeviceId> KindsOf(const Cluster& cluster) {
  std::map<std::string_view, DeviceId> kinds;
  for (const bool cpus : {false, true}) {
    for (std::size_t d = 0; d < cluster.num_devices(); ++d) {
      if (cluster.devices()[d].is_cpu == cpus) kinds.try_emplace(cluster.devices()[d].kind, MakeId<DeviceId>(d));
    }
  }
  return kinds;
}

void AddTimes(std::span<const OpId> members, const Cluster& cluster, const CostTable& costs, OpSpec* spec) {
  for (const auto& [kind, device] : KindsOf(cluster)) {
    double micros = 0;
    for (const OpId op : members) micros += costs.Micros(op, device);
    if (!std::isnan(micros)) spec->kind_times.emplace_back(kind, std::min(micros, 1e12));
  }
}

}  // namespace

Grouping::Grouping(const Graph& graph, std::span<const std::size_t> labels) : group_of_(graph.num_ops()) {
  EMPLACE_CHECK_EQ(labels.size(), graph.num_ops());
  OpSets sets(graph.num_ops());
  std::unordered_map<std::size_t, std::size_t> first_of_label;
  for (std::size_t op = 0; op < labels.size(); ++op) {
    sets.Join(op, first_of_label.try_emplace(labels[op], op).first->second);
    sets.Join(op, Index(graph.colocation_class(MakeId<OpId>(op))));
  }
  for (std::size_t op = 0; op < labels.size(); ++op) {
    const std::size_t first = sets.Find(op);
    if (first == op) {
      group_of_[op] = members_.size();
      members_.emplace_back();
    } else {
      group_of_[op] = group_of_[first];
    }
    members_[group_of_[op]].push_back(MakeId<OpId>(op));
  }
}

Graph Grouping::Coarsen(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                        std::size_t* dropped_edges) const {
  EMPLACE_CHECK_EQ(graph.num_ops(), num_ops());
  // Names whose order is the order of groups: then the canonical order is too.
  const int width = static_cast<int>(std::to_string(num_groups()).size());
  const auto name_of = [width](std::size_t group) { return fmt::format("g{:0{}}", group, width); };
  std::vector<OpSpec> specs(num_groups());
  std::vector<std::set<std::size_t>> waits(num_groups());
  std::set<std::pair<std::size_t, std::size_t>> dropped;
  for (std::size_t group = 0; group < num_groups(); ++group) {
    OpSpec& spec = specs[group];
    spec.name = name_of(group);
    spec.kind = "group";
    spec.layer = MainLayer(graph, costs, members_[group]);
    AddTimes(members_[group], cluster, costs, &spec);
    for (const OpId op : members_[group]) {
      spec.flop += graph.op(op).flop;
      spec.temp = std::max(spec.temp, graph.op(op).temp);
      spec.persistent += graph.op(op).persistent;
      for (const OpId consumer : graph.control_consumers(op)) {
        const std::size_t to = group_of(consumer);
        if (to > group) waits[to].insert(group);
        if (to < group) dropped.emplace(group, to);
      }
      for (std::size_t k = 0; k < graph.num_outputs(op); ++k) {
        const TensorId tensor = MakeId<TensorId>(Index(graph.first_output(op)) + k);
        std::set<std::size_t> readers;
        for (const OpId consumer : graph.consumers(tensor)) readers.insert(group_of(consumer));
        readers.erase(group);
        if (readers.empty()) continue;
        const std::string input = fmt::format("{}:{}", spec.name, spec.outputs.size());
        spec.outputs.push_back({.size = graph.tensor(tensor).size, .shape = {}});
        for (const std::size_t reader : readers) {
          if (reader > group) {
            specs[reader].inputs.push_back(input);
          } else {
            dropped.emplace(group, reader);
          }
        }
      }
    }
  }
  GraphBuilder builder(graph.name());
  for (std::size_t group = 0; group < num_groups(); ++group) {
    for (const std::size_t producer : waits[group]) specs[group].control_inputs.push_back(name_of(producer));
    builder.Add(specs[group]);
  }
  if (dropped_edges != nullptr) *dropped_edges = dropped.size();
  return builder.Build();
}

Placement Grouping::Expand(const Placement& groups) const {
  EMPLACE_CHECK_EQ(groups.num_ops(), num_groups());
  Placement placement(num_ops());
  for (std::size_t op = 0; op < num_ops(); ++op) {
    placement[MakeId<OpId>(op)] = groups[MakeId<OpId>(group_of_[op])];
  }
  return placement;
}

}  // namespace emplace
