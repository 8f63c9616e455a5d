#ifndef EMPLACE_SIM_ENGINES_PLACETO_REFERENCE_H_
#define EMPLACE_SIM_ENGINES_PLACETO_REFERENCE_H_

#include <memory>

#include "sim/simulator.h"

namespace emplace {

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
