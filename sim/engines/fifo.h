#ifndef EMPLACE_SIM_ENGINES_FIFO_H_
#define EMPLACE_SIM_ENGINES_FIFO_H_

#include <memory>

#include "sim/simulator.h"

namespace emplace {

// The default engine, exactly as simulator.md section 1: each device runs one op at a time and has one outgoing
// first-in first-out channel (or one per destination); a tensor is sent once to each device that reads it; times are
// whole nanoseconds. Beyond that section:
// - Where the costs have contention, an op that starts while another device of its kind is busy takes KindContention()
//   times as long, rounded to ns; what already runs is not slowed.
// - A device without a copy engine sends what an op made by itself, one tensor after the other whatever the channels,
//   and is free for its next op when the last is there (and the link's gap is over) and its op gap is over.
//
// Method: the start of an op is the only event (rule 5 of section 1), since its end and the arrival of all its
// transfers are known then. Cost O((edges + transfers) + ops * (devices + log ops)), and in practice a small constant
// per op: tests/bench/README.md.
std::unique_ptr<Simulator::Engine> MakeFifoEngine(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                                                  const SimOptions& options);

}  // namespace emplace

#endif  // EMPLACE_SIM_ENGINES_FIFO_H_
