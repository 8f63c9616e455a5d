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

// The devices of ops 0, 1, ... in the agent's best placement; empty if none fits.
std::vector<std::size_t> PlacedBy(const std::string& agent, const Graph& graph, const Cluster& cluster,
                                  const OptionMap& options = {});

// The result of a search that is stopped after these numbers of evaluations, and each time resumed from its checkpoint
// `name`.
agents::SearchResult StoppedAndResumed(agents::SearchSpec spec, const std::string& name,
                                       const std::vector<std::size_t>& stops);

// Checks a search on MakeTwoOpsForTheAccelerator() that ends with its likeliest placement. That placement has both ops
// on the accelerator. So do the last 20 drawn before it, each op in nine of ten cases.
void ExpectTheAcceleratorIsLearned(const agents::SearchResult& result);

// The step time of the fastest of all placements that fit, in µs. Cost: devices to the power of ops.
double FastestOfAll(const Graph& graph, const Cluster& cluster);

}  // namespace emplace::testing

#endif  // EMPLACE_TESTS_TESTING_SEARCHES_H_
