#ifndef EMPLACE_TESTS_TESTING_OBSERVATIONS_H_
#define EMPLACE_TESTS_TESTING_OBSERVATIONS_H_

#include <memory>
#include <vector>

#include "agents/agent.h"
#include "agents/environment.h"
#include "sim/base/options.h"
#include "sim/cluster.h"
#include "sim/graph.h"
#include "sim/placement.h"

namespace emplace::testing {

// The observation of a graph in which every op is a group of its own, with the graph's times.
agents::Observation MakeObservation(const Graph& graph, const Cluster& cluster);

// The first proposal of an agent with these options, with seed 1.
Placement FirstProposal(std::unique_ptr<agents::Agent> (*make)(OptionReader& reader,
                                                               const agents::AgentContext& context),
                        const OptionMap& options, const Graph& graph, const Cluster& cluster);

// The device numbers of a placement, for EXPECT_EQ.
std::vector<int> Devices(const Placement& placement);

// Whether every group is on an allowed device.
bool IsAllowed(const agents::Observation& observation, const Placement& placement);

}  // namespace emplace::testing

#endif  // EMPLACE_TESTS_TESTING_OBSERVATIONS_H_
