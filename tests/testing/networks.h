#ifndef EMPLACE_TESTS_TESTING_NETWORKS_H_
#define EMPLACE_TESTS_TESTING_NETWORKS_H_

#include <cstddef>
#include <ostream>
#include <string>
#include <vector>

#include "agents/nn/network.h"

namespace emplace::testing {

// A variant of the policy network and its name in messages.
struct NetworkCase {
  std::string name;
  agents::NetworkOptions options;
  friend std::ostream& operator<<(std::ostream& out, const NetworkCase& a_case) { return out << a_case.name; }
};
// Every embedding, variant, geometry and head, for graphs with 10 features and 5 devices.
std::vector<NetworkCase> AllNetworks();

// Random states of a graph: features in [-1, 1], currents and seeds.
agents::StateBatch RandomStates(const agents::Topology& topology, const agents::GraphSample& sample,
                                std::size_t num_features, std::size_t batch, Rng& rng);

// A topology of a random graph.
agents::Topology RandomTopology(Rng& rng, std::size_t num_nodes);

}  // namespace emplace::testing

#endif  // EMPLACE_TESTS_TESTING_NETWORKS_H_
