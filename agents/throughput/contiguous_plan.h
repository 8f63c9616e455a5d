#ifndef EMPLACE_AGENTS_THROUGHPUT_CONTIGUOUS_PLAN_H_
#define EMPLACE_AGENTS_THROUGHPUT_CONTIGUOUS_PLAN_H_

#include <cstddef>
#include <optional>

#include "agents/throughput/contiguous_units.h"
#include "agents/throughput/stage_costs.h"
#include "sim/graph.h"
#include "sim/grouping.h"
#include "sim/placement.h"

namespace emplace::agents {

struct ContiguousOptions {
  std::size_t max_ideals = 60'000;  // limit for ideals of units, including the empty set and the set of all units
  bool linear = false;              // only splits of one topological order: as many ideals as units, and one
  UnitOptions units = {};
};

struct ContiguousPlan {
  Placement placement;         // placement of ops
  double max_load_micros = 0;  // MaxLoad of it
  std::size_t num_units = 0;
  std::size_t num_ideals = 0;
};

// The smallest possible largest load of any device (MaxLoad), among contiguous splits that keep groups together and
// keep to the memory of devices and to where ops may run. Devices may stay empty. nullopt if there is no such split.
// Throws InputError, its place "ideals", if the units have more than max_ideals ideals; its place "devices", if devices
// are of more than 8 classes, or of enough that the table would have over 100 million entries.
//
// A dynamic program over ideals and numbers of devices in use: the least largest load of an ideal on given numbers of
// devices of each class follows from all smaller ideals and the load of the difference, on one device more. Of devices
// of a class the first take the first stages. Cost: pairs of ideals whose difference takes no longer than the best
// split of one topological order, which is computed first. Source: Tarnawski et al. 2020, the section on throughput
// maximisation, and the program throughput-dp. `linear` is its linearisation heuristic, with an order of our own. Ours
// are classes of devices beyond accelerators and CPUs, and what is cut off: pairs that are too slow, and states from
// which the rest cannot be done in time.
std::optional<ContiguousPlan> PlanContiguous(const Graph& graph, const Grouping& grouping, const StageCosts& costs,
                                             const ContiguousOptions& options = {});

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_THROUGHPUT_CONTIGUOUS_PLAN_H_
