#ifndef EMPLACE_TESTS_TESTING_SEARCHES_H_
#define EMPLACE_TESTS_TESTING_SEARCHES_H_

#include <string>
#include <vector>

#include "agents/search.h"
#include "sim/base/options.h"
#include "sim/cluster.h"
#include "sim/graph.h"

namespace emplace::testing {

// A search with the graph's own times.
agents::SearchSpec MakeSearch(const Graph& graph, const Cluster& cluster, const std::string& agent,
                              const OptionMap& options = {});

// The devices that the agent's best placement gives to ops 0, 1, ...; empty if nothing fits.
std::vector<std::size_t> PlacedBy(const std::string& agent, const Graph& graph, const Cluster& cluster,
                                  const OptionMap& options = {});

// The result of a search that is stopped at so many evaluations, each time from its checkpoint `name`, and then goes
// on.
agents::SearchResult StoppedAndResumed(agents::SearchSpec spec, const std::string& name,
                                       const std::vector<std::size_t>& stops);

// Of a search on MakeTwoOpsForTheAccelerator() that ends with its likeliest placement: that one has both ops on the
// accelerator, and so had the last 20 drawn before it, each op nine times out of ten.
void ExpectTheAcceleratorIsLearned(const agents::SearchResult& result);

// The step time of the fastest placement that fits, of all there are, in µs. Cost: devices to the power of ops.
double FastestOfAll(const Graph& graph, const Cluster& cluster);

}  // namespace emplace::testing

#endif  // EMPLACE_TESTS_TESTING_SEARCHES_H_
