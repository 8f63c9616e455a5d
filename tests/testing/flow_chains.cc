#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "sim/network/flow_network.h"
#include "tests/testing/simgrid_flows.h"

namespace emplace::testing {

std::vector<std::vector<std::int64_t>> SimulateChains(const std::vector<double>& bytes_per_ns,
                                                      const std::vector<FlowChain>& chains) {
  FlowNetwork network(bytes_per_ns);
  std::vector<std::vector<std::int64_t>> ends(chains.size());
  std::vector<std::pair<std::int64_t, std::size_t>> starts;
  for (std::size_t i = 0; i < chains.size(); ++i) starts.emplace_back(chains[i].start_ns, i);
  std::sort(starts.begin(), starts.end());
  std::vector<std::size_t> chain_of_flow;
  for (std::size_t i = 0; i < chains.size(); ++i) ends[i].reserve(chains[i].flows.size());
  const auto begin = [&](std::size_t chain, std::int64_t now) {
    const FlowChain::Flow& flow = chains[chain].flows[ends[chain].size()];
    const FlowNetwork::Flow number = network.Start(now, flow.route, flow.bytes);
    if (number >= chain_of_flow.size()) chain_of_flow.resize(number + 1);
    chain_of_flow[number] = chain;
  };
  std::size_t next = 0;
  while (true) {
    const std::optional<std::int64_t> end = network.NextEnd();
    if (next < starts.size() && (!end || starts[next].first < *end)) {
      begin(starts[next].second, starts[next].first);
      ++next;
      continue;
    }
    if (!end) return ends;
    const std::size_t chain = chain_of_flow[network.End()];
    ends[chain].push_back(*end);
    if (ends[chain].size() < chains[chain].flows.size()) begin(chain, *end);
  }
}

}  // namespace emplace::testing
