#ifndef EMPLACE_DATASETS_PLANNER_PLAN_MACHINE_H_
#define EMPLACE_DATASETS_PLANNER_PLAN_MACHINE_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/cluster.h"
#include "sim/graph.h"

namespace emplace::datasets {

// The ranks that take part in a collective: `ranks` of them, `per_node` on each node.
struct RankGroup {
  std::int64_t ranks = 1;
  std::int64_t per_node = 1;
};

// What a plan needs to know of a cluster: nodes with the same number of accelerators, of one kind in each node.
struct PlanMachine {
  struct NodeKind {
    DeviceKind device;
    std::optional<Bytes> memory;  // of the accelerator with the least; none: no limit
  };
  std::string name;
  DeviceKind device;            // the slowest kind
  std::optional<Bytes> memory;  // of the accelerator with the least; none: no limit
  // The kinds of nodes, the slowest first, and that of each node; empty where all nodes are alike.
  std::vector<NodeKind> kinds;
  std::vector<std::size_t> kind_of_node;
  std::int64_t gpus_per_node = 1;
  std::int64_t nodes = 1;
  Link inside;   // between two accelerators of a node
  Link between;  // between two of different nodes, as each of them has it when all send; none with one node
  CollectiveCosts collective_costs;

  std::int64_t gpus() const { return gpus_per_node * nodes; }
  // FLOP of all accelerators in a microsecond.
  double PeakFlopPerMicro(Precision precision) const;
  // "a100 and h100".
  std::string DeviceNames() const;
  // The slowest kind of `count` accelerators from this one on: its place in `kinds`, 0 where all nodes are alike.
  std::size_t SlowestKind(std::int64_t first, std::int64_t count) const;
  // The machine with this kind in all nodes.
  PlanMachine AllOfKind(std::size_t kind) const;
  // The machine with only this many accelerators: a part of one node, or whole nodes. Requires: one of PartSizes().
  PlanMachine Part(std::int64_t count) const;
  // How many accelerators a part can have, ascending: the divisors of a node's, then those of each number of nodes.
  std::vector<std::int64_t> PartSizes() const;
  // Ranks that are `stride` apart, `ranks` of them.
  RankGroup GroupOf(std::int64_t ranks, std::int64_t stride) const;
};

// `nodes` copies of the cluster, joined by its network. A cluster whose own accelerators form several groups, each
// joined by faster links than the groups are, counts as so many nodes. Throws InputError on a cluster without
// accelerators, with several kinds of them in a node or nodes of unlike sizes, without links between them, and on
// several copies of one without a network. With `gpus`, the machine has only so many accelerators, as many in each
// node, and one node where that is enough; an InputError about their number is at `gpus_place`.
PlanMachine MakePlanMachine(const Cluster& cluster, std::int64_t nodes, std::optional<std::int64_t> gpus = {},
                            const std::string& gpus_place = "gpus");

// The time of a collective of the group, in us, whose whole message has this size. Inside a node it is that of the
// measured curves where the device has them (docs/curves.md). Over several nodes, the message crosses the network once
// for each node, over the links of all ranks of the group in a node; a ring takes `network_step_us` more for each rank
// after the first, and the tree of a reduction, twice, for each doubling of nodes.
double CollectiveMicros(const PlanMachine& machine, CollectiveKind kind, const RankGroup& group, double bytes,
                        double network_step_us);
// The time of a message from one rank to the next of its group, `stride` apart.
double MessageMicros(const PlanMachine& machine, std::int64_t stride, double bytes);

}  // namespace emplace::datasets

#endif  // EMPLACE_DATASETS_PLANNER_PLAN_MACHINE_H_
