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

// The graph as an agent sees it if every op is a group of its own; times as the graph gives them.
agents::Observation MakeObservation(const Graph& graph, const Cluster& cluster);

// What an agent with these options proposes for it first, with the seed 1.
Placement FirstProposal(std::unique_ptr<agents::Agent> (*make)(OptionReader& reader,
                                                               const agents::AgentContext& context),
                        const OptionMap& options, const Graph& graph, const Cluster& cluster);

// The device numbers of a placement, for EXPECT_EQ.
std::vector<int> Devices(const Placement& placement);

// Whether every group stands where it is allowed.
bool IsAllowed(const agents::Observation& observation, const Placement& placement);

}  // namespace emplace::testing

#endif  // EMPLACE_TESTS_TESTING_OBSERVATIONS_H_
