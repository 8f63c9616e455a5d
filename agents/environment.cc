#include "agents/environment.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "agents/candidates.h"
#include "sim/base/check.h"
#include "sim/base/worker_pool.h"

namespace emplace::agents {
namespace {

void CheckLinks(const Cluster& cluster) {
  const auto missing = cluster.FindMissingLink();
  if (!missing) return;
  throw InputError("", "cluster " + cluster.name() + " has no link from " + cluster.device(missing->first).name +
                           " to " + cluster.device(missing->second).name +
                           " (agents place on all devices: add the link, or keep fewer devices)");
}

void FillGroup(const Graph& graph, const CostTable& costs, const Grouping& grouping, std::size_t group,
               Observation* seen) {
  for (std::size_t d = 0; d < seen->num_devices(); ++d) {
    double micros = 0;
    for (const OpId op : grouping.members(group)) micros += costs.Micros(op, MakeId<DeviceId>(d));
    seen->time_micros.push_back(micros);
    seen->allowed.push_back(std::isnan(micros) ? 0 : 1);
  }
  const auto row = seen->allowed.end() - static_cast<std::ptrdiff_t>(seen->num_devices());
  if (std::find(row, seen->allowed.end(), 1) == seen->allowed.end()) {
    throw InputError("", "no device has a time for all ops of the group of op \"" +
                             std::string(graph.op(grouping.members(group)[0]).name) + "\" (use grouping identity)");
  }
  Bytes persistent;
  Bytes temp;
  Bytes output;
  for (const OpId op : grouping.members(group)) {
    persistent += graph.op(op).persistent;
    temp = std::max(temp, graph.op(op).temp);
    for (std::size_t k = 0; k < graph.num_outputs(op); ++k) {
      output += graph.tensor(MakeId<TensorId>(Index(graph.first_output(op)) + k)).size;
    }
  }
  seen->persistent.push_back(persistent);
  seen->temp.push_back(temp);
  seen->output.push_back(output);
}

Observation Observe(const Graph& graph, const Cluster& cluster, const CostTable& costs, const Grouping& grouping) {
  CheckLinks(cluster);
  Observation seen{.graph = grouping.Coarsen(graph, cluster, costs),
                   .cluster = cluster,
                   .time_micros = {},
                   .allowed = {},
                   .persistent = {},
                   .temp = {},
                   .output = {},
                   .accelerators = {}};
  for (std::size_t group = 0; group < grouping.num_groups(); ++group) {
    FillGroup(graph, costs, grouping, group, &seen);
  }
  for (std::size_t d = 0; d < cluster.num_devices(); ++d) {
    if (!cluster.devices()[d].is_cpu) seen.accelerators.push_back(MakeId<DeviceId>(d));
  }
  if (seen.accelerators.empty()) {
    for (std::size_t d = 0; d < cluster.num_devices(); ++d) seen.accelerators.push_back(MakeId<DeviceId>(d));
  }
  return seen;
}

}  // namespace

DeviceId Observation::Fastest(std::size_t group, std::span<const DeviceId> devices) const {
  DeviceId fastest{};
  double least = std::numeric_limits<double>::infinity();
  for (const DeviceId device : devices) {
    if (!Allowed(group, Index(device)) || TimeMicros(group, Index(device)) >= least) continue;
    fastest = device;
    least = TimeMicros(group, Index(device));
  }
  if (least != std::numeric_limits<double>::infinity()) return fastest;
  for (std::size_t d = 0; d < num_devices(); ++d) {
    if (!Allowed(group, d) || TimeMicros(group, d) >= least) continue;
    fastest = MakeId<DeviceId>(d);
    least = TimeMicros(group, d);
  }
  return fastest;
}

Environment::Environment(const Graph& graph, const Cluster& cluster, const CostTable& costs, Grouping grouping,
                         const Evaluator& evaluator, const RewardOptions& reward, std::size_t threads,
                         std::size_t index)
    : graph_(graph),
      costs_(costs),
      grouping_(std::move(grouping)),
      evaluator_(evaluator),
      reward_(reward),
      threads_(std::max<std::size_t>(threads, 1)),
      index_(index),
      observation_(Observe(graph_, cluster, costs_, grouping_)) {
  FindReward(reward_.name);
  reward_.memory = MemoryOf(cluster);
}

Placement Environment::OfGroups(const Placement& ops) const {
  EMPLACE_CHECK_EQ(ops.num_ops(), graph_.num_ops());
  const std::vector<DeviceId> all = AllDevices(observation_.cluster);
  Placement groups(observation_.num_groups());
  for (std::size_t group = 0; group < groups.num_ops(); ++group) {
    // Ops of no time count for a little, so that a group of them has a device too.
    std::vector<double> micros(all.size(), 0);
    for (const OpId op : grouping_.members(group)) micros[Index(ops[op])] += costs_.Micros(op, ops[op]) + 1e-6;
    const auto most = std::max_element(micros.begin(), micros.end()) - micros.begin();
    const auto device = MakeId<DeviceId>(static_cast<std::size_t>(most));
    groups[MakeId<OpId>(group)] =
        observation_.Allowed(group, Index(device)) ? device : observation_.Fastest(group, all);
  }
  return groups;
}

void Environment::SetStart(const Placement& ops) { start_ = OfGroups(ops); }

std::vector<Outcome> Environment::Evaluate(std::span<const Placement> placements) {
  for (const Placement& placement : placements) {
    EMPLACE_CHECK_EQ(placement.num_ops(), observation_.num_groups());
    for (std::size_t group = 0; group < placement.num_ops(); ++group) {
      EMPLACE_CHECK(observation_.Allowed(group, Index(placement[MakeId<OpId>(group)])));
    }
  }
  const RewardEntry& reward = FindReward(reward_.name);
  std::vector<Outcome> outcomes(placements.size());
  while (workspaces_.size() < std::min(threads_, placements.size())) workspaces_.push_back(evaluator_.MakeWorkspace());
  RunOnThreads(threads_, placements.size(), [&](std::size_t worker, std::size_t i) {
    evaluator_.RunWith(*workspaces_[worker], grouping_.Expand(placements[i]), &outcomes[i].result);
    outcomes[i].reward = reward.reward(outcomes[i].result, reward_);
  });
  evaluations_ += placements.size();
  return outcomes;
}

}  // namespace emplace::agents
