#include "datasets/planner/plan_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <vector>

#include "datasets/exporters/frameworks.h"
#include "sim/base/check.h"
#include "sim/cost/curves.h"

namespace emplace::datasets {
namespace {

// Throws InputError if there is none.
std::vector<DeviceId> SomeAccelerators(const Cluster& cluster) {
  std::vector<DeviceId> accelerators = Accelerators(cluster);
  if (accelerators.empty()) throw InputError(cluster.name(), "has no accelerator (a plan's ranks run on one each)");
  return accelerators;
}

// A link between groups is slower than this part of those within them.
constexpr double kSlower = 0.6;

// How many accelerators, from this one on, are joined to it by links as fast as that to the next.
std::size_t RunLength(const Cluster& cluster, const std::vector<DeviceId>& accelerators, std::size_t first) {
  if (first + 1 == accelerators.size()) return 1;
  const double fast = cluster.link(accelerators[first], accelerators[first + 1]).bandwidth_gb_per_s;
  std::size_t end = first + 2;
  while (end < accelerators.size() &&
         cluster.link(accelerators[first], accelerators[end]).bandwidth_gb_per_s >= kSlower * fast) {
    ++end;
  }
  return end - first;
}

// Throws InputError where groups of unlike sizes are apart from each other: they are nodes.
void CheckNodesAreEqual(const Cluster& cluster, const std::vector<DeviceId>& accelerators) {
  std::vector<std::size_t> group_of;
  std::vector<std::size_t> sizes;
  while (group_of.size() < accelerators.size()) {
    const std::size_t size = RunLength(cluster, accelerators, group_of.size());
    group_of.insert(group_of.end(), size, sizes.size());
    sizes.push_back(size);
  }
  const double fast = cluster.link(accelerators[0], accelerators[1]).bandwidth_gb_per_s;
  for (std::size_t i = 0; i < accelerators.size(); ++i) {
    for (std::size_t j = 0; j < accelerators.size(); ++j) {
      const bool is_joined = cluster.link(accelerators[i], accelerators[j]).bandwidth_gb_per_s >= kSlower * fast;
      if (group_of[i] != group_of[j] && is_joined) return;
    }
  }
  if (std::ranges::adjacent_find(sizes, std::not_equal_to()) == sizes.end()) return;
  throw InputError(cluster.name(),
                   fmt::format("has nodes of {} accelerators (as many in each)", fmt::join(sizes, ", ")));
}

// How many accelerators a node has, or a group of them that is joined by faster links than the groups are.
std::size_t GroupSize(const Cluster& cluster, const std::vector<DeviceId>& accelerators) {
  if (accelerators.size() < 2) return accelerators.size();
  CheckNodesAreEqual(cluster, accelerators);
  const std::size_t size = RunLength(cluster, accelerators, 0);
  return accelerators.size() % size == 0 ? size : accelerators.size();
}

// The slowest link between the first accelerator and these.
Link SlowestLink(const Cluster& cluster, const std::vector<DeviceId>& accelerators, std::size_t first,
                 std::size_t end) {
  Link slowest;
  for (std::size_t i = first; i < end; ++i) {
    const Link& link = cluster.link(accelerators[0], accelerators[i]);
    if (!link.exists()) {
      throw InputError(cluster.name(), fmt::format("has no link from {} to {}", cluster.device(accelerators[0]).name,
                                                   cluster.device(accelerators[i]).name));
    }
    if (!slowest.exists() || link.bandwidth_gb_per_s < slowest.bandwidth_gb_per_s) slowest = link;
  }
  return slowest;
}

// The rate at which each accelerator can use the network while all of its node do.
double PortShare(const Cluster& cluster, std::size_t accelerators) {
  double total = 0;
  for (const NodeNetwork::Port& port : cluster.network()->ports) total += port.bandwidth_gb_per_s;
  return total / static_cast<double>(accelerators);
}

double PeakOfKind(const DeviceKind& device, Precision precision) { return RateOf(device, precision).peak.count / 1e6; }

void TakeLess(const std::optional<Bytes>& memory, std::optional<Bytes>* least) {
  if (memory && (!*least || memory->count < (*least)->count)) *least = memory;
}

// What all nodes have, from the kinds of each.
void JoinKinds(PlanMachine* machine) {
  const std::size_t slowest = *std::ranges::min_element(machine->kind_of_node);
  machine->device = machine->kinds[slowest].device;
  machine->memory.reset();
  for (const std::size_t kind : machine->kind_of_node) TakeLess(machine->kinds[kind].memory, &machine->memory);
  if (std::ranges::adjacent_find(machine->kind_of_node, std::not_equal_to()) != machine->kind_of_node.end()) return;
  machine->kinds.clear();
  machine->kind_of_node.clear();
}

// The kinds of the nodes, `size` accelerators each, and of the copies of all.
void AddKinds(const Cluster& cluster, const std::vector<DeviceId>& accelerators, std::size_t size, std::int64_t copies,
              PlanMachine* machine) {
  const auto position_of = [&](const std::string& name) {
    const auto found =
        std::ranges::find(machine->kinds, name, [](const PlanMachine::NodeKind& of) { return of.device.name; });
    return static_cast<std::size_t>(found - machine->kinds.begin());
  };
  for (std::size_t i = 0; i < accelerators.size(); ++i) {
    const Device& device = cluster.device(accelerators[i]);
    const std::string& first = cluster.device(accelerators[i / size * size]).kind;
    if (device.kind != first) {
      throw InputError(cluster.name(), fmt::format("has accelerators of several kinds in a node, {} and {} (one kind)",
                                                   first, device.kind));
    }
    const DeviceKind* const kind = cluster.FindKind(device.kind);
    if (kind == nullptr) {
      throw InputError(cluster.name(), fmt::format("has accelerators of the kind {}, whose rates are not known "
                                                   "(`emplace list device-kinds`, or `kinds` of the file)",
                                                   device.kind));
    }
    const std::size_t position = position_of(kind->name);
    if (position == machine->kinds.size()) machine->kinds.push_back({.device = *kind, .memory = {}});
    TakeLess(device.memory, &machine->kinds[position].memory);
  }
  std::ranges::stable_sort(machine->kinds, {},
                           [](const PlanMachine::NodeKind& of) { return PeakOfKind(of.device, Precision::kBf16); });
  for (std::int64_t copy = 0; copy < copies; ++copy) {
    for (std::size_t i = 0; i < accelerators.size(); i += size) {
      machine->kind_of_node.push_back(position_of(cluster.FindKind(cluster.device(accelerators[i]).kind)->name));
    }
  }
  JoinKinds(machine);
}

PlanMachine WholeMachine(const Cluster& cluster, std::int64_t nodes) {
  const std::vector<DeviceId> accelerators = SomeAccelerators(cluster);
  PlanMachine machine;
  machine.name = cluster.name();
  const std::size_t size = GroupSize(cluster, accelerators);
  AddKinds(cluster, accelerators, size, nodes, &machine);
  machine.gpus_per_node = static_cast<std::int64_t>(size);
  machine.nodes = static_cast<std::int64_t>(accelerators.size() / size) * nodes;
  machine.inside = SlowestLink(cluster, accelerators, 1, size);
  if (size < accelerators.size()) {
    machine.between = SlowestLink(cluster, accelerators, size, accelerators.size());
  } else if (nodes > 1) {
    const Cluster two = cluster.Repeat(2);
    const std::vector<DeviceId> all = SomeAccelerators(two);
    machine.between = SlowestLink(two, all, accelerators.size(), all.size());
    if (!cluster.network()->ports.empty()) {
      machine.between.bandwidth_gb_per_s =
          std::min(machine.between.bandwidth_gb_per_s, PortShare(cluster, accelerators.size()));
    }
  }
  machine.collective_costs = cluster.collective_costs();
  return machine;
}

}  // namespace

RankGroup PlanMachine::GroupOf(std::int64_t ranks, std::int64_t stride) const {
  return {.ranks = ranks, .per_node = std::clamp<std::int64_t>(gpus_per_node / stride, 1, ranks)};
}

double PlanMachine::PeakFlopPerMicro(Precision precision) const {
  const auto of_node = static_cast<double>(gpus_per_node);
  if (kind_of_node.empty()) return static_cast<double>(gpus()) * PeakOfKind(device, precision);
  double sum = 0;
  for (const std::size_t kind : kind_of_node) sum += of_node * PeakOfKind(kinds[kind].device, precision);
  return sum;
}

std::string PlanMachine::DeviceNames() const {
  if (kinds.empty()) return device.name;
  std::vector<std::string> names;
  for (const NodeKind& kind : kinds) names.push_back(kind.device.name);
  return fmt::format("{}", fmt::join(names, " and "));
}

std::size_t PlanMachine::SlowestKind(std::int64_t first, std::int64_t count) const {
  if (kind_of_node.empty()) return 0;
  const auto begin = kind_of_node.begin();
  return *std::min_element(begin + first / gpus_per_node, begin + (first + count - 1) / gpus_per_node + 1);
}

PlanMachine PlanMachine::AllOfKind(std::size_t kind) const {
  PlanMachine machine = *this;
  if (kinds.empty()) return machine;
  machine.device = kinds[kind].device;
  machine.memory = kinds[kind].memory;
  machine.kinds.clear();
  machine.kind_of_node.clear();
  return machine;
}

PlanMachine PlanMachine::Part(std::int64_t count) const {
  PlanMachine part = *this;
  part.nodes = std::max<std::int64_t>(1, count / gpus_per_node);
  part.gpus_per_node = std::min(count, gpus_per_node);
  if (!kind_of_node.empty()) {
    part.kind_of_node.resize(static_cast<std::size_t>(part.nodes));
    JoinKinds(&part);
  }
  return part;
}

std::vector<std::int64_t> PlanMachine::PartSizes() const {
  std::vector<std::int64_t> sizes;
  for (std::int64_t count = 1; count < gpus_per_node; ++count) {
    if (gpus_per_node % count == 0) sizes.push_back(count);
  }
  for (std::int64_t count = 1; count <= nodes; ++count) sizes.push_back(count * gpus_per_node);
  return sizes;
}

PlanMachine MakePlanMachine(const Cluster& cluster, std::int64_t nodes, std::optional<std::int64_t> gpus,
                            const std::string& gpus_place) {
  PlanMachine machine = WholeMachine(cluster, nodes);
  if (!gpus) return machine;
  const std::int64_t used = *gpus < machine.gpus_per_node ? 1 : machine.nodes;
  if (*gpus < 1 || *gpus > machine.gpus() || *gpus % used != 0) {
    const std::string range = machine.nodes == 1 ? fmt::format("1 to {}", machine.gpus())
                                                 : fmt::format("less than {}, or a multiple of the {} nodes up to {}",
                                                               machine.gpus_per_node, machine.nodes, machine.gpus());
    throw InputError(gpus_place, fmt::format("is {} ({})", *gpus, range));
  }
  machine.gpus_per_node = *gpus / used;
  return machine.Part(*gpus);
}

double CollectiveMicros(const PlanMachine& machine, CollectiveKind kind, const RankGroup& group, double bytes,
                        double network_step_us) {
  if (group.ranks < 2 || bytes <= 0) return 0;
  const auto ranks = static_cast<double>(group.ranks);
  const auto per_node = static_cast<double>(group.per_node);
  const double nodes = ranks / per_node;
  const bool is_reduction = kind == CollectiveKind::kAllReduce;
  const double passes = is_reduction ? 2 : 1;
  double inside = 0;
  if (group.per_node > 1) {
    const auto curved = CollectiveMicros(machine.device.name, machine.inside.bandwidth_gb_per_s, kind,
                                         static_cast<std::size_t>(group.per_node), bytes);
    inside = curved ? *curved
                    : machine.collective_costs.launch_micros +
                          passes * (machine.inside.MicrosOf(bytes * (per_node - 1) / per_node) +
                                    (per_node - 1) * machine.inside.latency_micros);
    if (group.ranks == group.per_node) return inside;
  }
  // In an all-to-all every rank has a message of its own.
  const double links = kind == CollectiveKind::kAllToAll ? 1 : per_node;
  const double across = passes * machine.between.MicrosOf(bytes * (nodes - 1) / nodes / links);
  const double step = machine.between.latency_micros + network_step_us;
  const double steps = is_reduction                        ? 2 * std::ceil(std::log2(nodes))
                       : kind == CollectiveKind::kAllToAll ? nodes - 1
                                                           : ranks - 1;
  return machine.collective_costs.launch_micros + std::max(inside, across) + steps * step;
}

double MessageMicros(const PlanMachine& machine, std::int64_t stride, double bytes) {
  const Link& link = stride < machine.gpus_per_node ? machine.inside : machine.between;
  if (!link.exists()) return 0;
  return link.latency_micros + link.MicrosOf(bytes);
}

}  // namespace emplace::datasets
