#ifndef EMPLACE_AGENTS_HEURISTICS_HEFT_H_
#define EMPLACE_AGENTS_HEURISTICS_HEFT_H_

#include <memory>
#include <vector>

#include "agents/agent.h"
#include "agents/environment.h"
#include "sim/base/options.h"
#include "sim/base/units.h"
#include "sim/placement.h"

namespace emplace::agents {

struct HeftOptions {
  bool memory_filter = false;  // m-HEFT: only devices with enough memory
};

// HEFT's schedule by its own model of transfers. The agent keeps only the placement: the simulator predicts when ops
// run.
struct HeftSchedule {
  Placement placement;
  std::vector<double> ranks;    // [num_groups], upward rank in µs
  std::vector<Duration> start;  // [num_groups]
  std::vector<Duration> end;    // [num_groups]
};

// Heterogeneous earliest finish time. Upward rank: mean time over the devices where the group is allowed, plus the
// largest over its consumers of mean transfer time and their rank. The mean transfer time is over all ordered pairs of
// distinct devices. By decreasing rank (ties: smaller group first) each group goes to the device where it finishes
// first (ties: smaller device first). It uses an idle gap if it fits in one. A transfer takes latency + bytes /
// bandwidth, with all tensors from one group to another as one message. Transfers never wait for each other. All
// devices are used, CPUs included.
//
// With memory_filter a device is considered only if the persistent and output bytes of all its groups and the largest
// temporary bytes among them fit. Nothing is ever freed, as the order of ranks is not an order in time. If no device
// has enough memory, the group goes to the device with the most memory left.
//
// Cost: O(groups * devices * (inputs + idle gaps)).
// Source: Topcuoglu, Hariri and Wu 2002 ("Performance-effective and low-complexity task scheduling for heterogeneous
// computing"), section 4.2. Deviations: the idle time of a device after each op (its op gap) counts as busy. An op of
// zero duration occupies nothing, and fits at any time that is idle when it is placed.
HeftSchedule ScheduleByHeft(const Observation& observation, const HeftOptions& options);

std::unique_ptr<Agent> MakeHeftAgent(OptionReader& reader, const AgentContext& context);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_HEURISTICS_HEFT_H_
