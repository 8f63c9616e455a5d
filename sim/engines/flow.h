#ifndef EMPLACE_SIM_ENGINES_FLOW_H_
#define EMPLACE_SIM_ENGINES_FLOW_H_

#include <memory>

#include "sim/simulator.h"

namespace emplace {

// The engine whose transfers share the links of the cluster's topology, exactly as docs/model.md, W1 to W7: devices,
// queues and memory are those of engine `fifo`; a transfer is a flow over the links of its route, and flows that cross
// a link share it max-min fairly. Without a topology it gives fifo's answers, as it does where no two flows meet.
// Refuses issue lanes. Collectives are K1 to K13.
//
// Method: discrete events. Arrivals are not known before they occur, so that each op that ends, each flow and each
// pause of a channel is an event. Cost of a flow that starts or ends: the flows and links that shared links join to it
// (FlowNetwork).
std::unique_ptr<Simulator::Engine> MakeFlowEngine(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                                                  const SimOptions& options);
// The same as if the cluster had no topology, which is what `fifo` says: for graphs with collectives.
std::unique_ptr<Simulator::Engine> MakeFlowEngineWithoutTopology(const Graph& graph, const Cluster& cluster,
                                                                 const CostTable& costs, const SimOptions& options);

}  // namespace emplace

#endif  // EMPLACE_SIM_ENGINES_FLOW_H_
