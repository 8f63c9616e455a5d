#ifndef EMPLACE_SIM_ENGINES_FIFO_H_
#define EMPLACE_SIM_ENGINES_FIFO_H_

#include <memory>

#include "sim/simulator.h"

namespace emplace {

// The default engine, exactly as docs/model.md, F1 to F18: each device runs one op at a time and has one outgoing
// first-in first-out channel (or one per destination); a tensor is sent once to each device that reads it; times are
// whole nanoseconds. Contention slows an op that starts while another device of its kind is busy (F14). A device
// without a copy engine sends by itself, and starts no op meanwhile (F13). A device that an issue lane feeds runs
// behind it (F15 to F18).
//
// Method: the start of an op is the only event (F11), since its end and the arrival of all its transfers are known
// then. Cost O((edges + transfers) + ops * (devices + log ops)), and in practice a small constant per op:
// docs/benchmarks.md. Graphs with collectives are run by the events of `flow`, without its topology.
std::unique_ptr<Simulator::Engine> MakeFifoEngine(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                                                  const SimOptions& options);

}  // namespace emplace

#endif  // EMPLACE_SIM_ENGINES_FIFO_H_
