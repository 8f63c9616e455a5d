#include "datasets/planner/plan_machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "datasets/exporters/frameworks.h"
#include "sim/base/check.h"
#include "sim/cost/curves.h"

namespace emplace::datasets {
namespace {

// Throws InputError unless there is one and all are of one kind.
std::vector<DeviceId> EqualAccelerators(const Cluster& cluster) {
  std::vector<DeviceId> accelerators = Accelerators(cluster);
  if (accelerators.empty()) throw InputError(cluster.name(), "has no accelerator (a plan's ranks run on one each)");
  for (const DeviceId id : accelerators) {
    if (cluster.device(id).kind == cluster.device(accelerators[0]).kind) continue;
    throw InputError(cluster.name(), fmt::format("has accelerators of several kinds, {} and {} (one kind)",
                                                 cluster.device(accelerators[0]).kind, cluster.device(id).kind));
  }
  return accelerators;
}

// How many accelerators, from the first on, are joined by links as fast as that to the second.
std::size_t GroupSize(const Cluster& cluster, const std::vector<DeviceId>& accelerators) {
  constexpr double kSlower = 0.6;
  if (accelerators.size() < 2) return accelerators.size();
  const double fast = cluster.link(accelerators[0], accelerators[1]).bandwidth_gb_per_s;
  std::size_t size = 2;
  while (size < accelerators.size() &&
         cluster.link(accelerators[0], accelerators[size]).bandwidth_gb_per_s >= kSlower * fast) {
    ++size;
  }
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

PlanMachine WholeMachine(const Cluster& cluster, std::int64_t nodes) {
  const std::vector<DeviceId> accelerators = EqualAccelerators(cluster);
  const Device& first = cluster.device(accelerators[0]);
  PlanMachine machine;
  machine.name = cluster.name();
  const DeviceKind* const kind = cluster.FindKind(first.kind);
  if (kind == nullptr) {
    throw InputError(cluster.name(), fmt::format("has accelerators of the kind {}, whose rates are not known "
                                                 "(`emplace list device-kinds`, or `kinds` of the file)",
                                                 first.kind));
  }
  machine.device = *kind;
  for (const DeviceId id : accelerators) {
    const std::optional<Bytes>& memory = cluster.device(id).memory;
    if (memory && (!machine.memory || memory->count < machine.memory->count)) machine.memory = memory;
  }
  const std::size_t size = GroupSize(cluster, accelerators);
  machine.gpus_per_node = static_cast<std::int64_t>(size);
  machine.nodes = static_cast<std::int64_t>(accelerators.size() / size) * nodes;
  machine.inside = SlowestLink(cluster, accelerators, 1, size);
  if (size < accelerators.size()) {
    machine.between = SlowestLink(cluster, accelerators, size, accelerators.size());
  } else if (nodes > 1) {
    const Cluster two = cluster.Repeat(2);
    const std::vector<DeviceId> all = EqualAccelerators(two);
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

PlanMachine PlanMachine::Part(std::int64_t count) const {
  PlanMachine part = *this;
  part.nodes = std::max<std::int64_t>(1, count / gpus_per_node);
  part.gpus_per_node = std::min(count, gpus_per_node);
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
    throw InputError(gpus_place, fmt::format("is {} (a multiple of the {} nodes, at most {})", *gpus, machine.nodes,
                                             machine.gpus()));
  }
  machine.nodes = used;
  machine.gpus_per_node = *gpus / used;
  return machine;
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
