#ifndef EMPLACE_SIM_ENGINES_PLACETO_REFERENCE_H_
#define EMPLACE_SIM_ENGINES_PLACETO_REFERENCE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "sim/simulator.h"

namespace emplace {

// An op that waits for an output of another.
struct PlacetoChild {
  OpId child;
  std::uint32_t output;  // output index of the op it waits for
};

// The published simulator's edges (docs/model.md, P5 to P7): for each op, the ops that wait for it in file order, each
// once. The last mention of a parent decides its output; control inputs count as mentioned last, on output 0.
std::vector<std::vector<PlacetoChild>> PlacetoChildren(const Graph& graph);

// The answers of the published Placeto / Park simulator, bit for bit (docs/model.md, P1 to P27, quirks included: one
// edge per pair of ops, one transfer for all destinations, control edges that move output 0, memory of outputs only).
// Constants come from the cluster: delta1 is op_gap_us, delta2 the links' gap_us, the rate their bandwidth.
//
// Method: the start of an op is the only event (docs/model.md, P20); the published order of events with equal time
// stamps is kept by a tie key for each op that becomes ready.
//
// Throws InputError on what it cannot answer for: links that differ, a latency, a channel per pair, op gaps that
// differ.
std::unique_ptr<Simulator::Engine> MakePlacetoReferenceEngine(const Graph& graph, const Cluster& cluster,
                                                              const CostTable& costs, const SimOptions& options);

}  // namespace emplace

#endif  // EMPLACE_SIM_ENGINES_PLACETO_REFERENCE_H_
