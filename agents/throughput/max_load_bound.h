#ifndef EMPLACE_AGENTS_THROUGHPUT_MAX_LOAD_BOUND_H_
#define EMPLACE_AGENTS_THROUGHPUT_MAX_LOAD_BOUND_H_

#include "agents/throughput/stage_costs.h"
#include "sim/graph.h"

namespace emplace::agents {

// A bound on the largest load of a device (MaxLoad), of all placements: the larger of two, in µs.
//   - Work. The work of an op is its least time on any device. A device of a class does at most as much work in a µs as
//     it does for the op that suits it best. All work, divided by what all devices do in a µs.
//   - The largest colocation class: its ops are on one device, be it that where they take least.
// Crossings and memory are not asked about.
double MaxLoadBoundMicros(const Graph& graph, const StageCosts& costs);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_THROUGHPUT_MAX_LOAD_BOUND_H_
