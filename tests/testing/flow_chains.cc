#include <algorithm>
#include <cstddef>
#include <ctime>
#include <optional>
#include <span>
#include <utility>

#include "sim/network/flow_network.h"
#include "tests/testing/simgrid_flows.h"

namespace emplace::testing {

FlowRun SimulateChains(const std::vector<double>& bytes_per_ns, const std::vector<FlowChain>& chains) {
  FlowNetwork network(bytes_per_ns);
  FlowRun run;
  std::vector<std::vector<std::int64_t>>& ends = run.ends_ns;
  ends.resize(chains.size());
  std::vector<std::pair<std::int64_t, std::size_t>> starts;
  for (std::size_t i = 0; i < chains.size(); ++i) starts.emplace_back(chains[i].start_ns, i);
  std::sort(starts.begin(), starts.end());
  // The chains in two arrays: otherwise most of the time is that of finding their flows in memory.
  struct Transfer {
    std::uint32_t first_link = 0;
    std::uint32_t num_links = 0;
    std::int64_t bytes = 0;
  };
  std::vector<std::size_t> first;
  std::vector<Transfer> transfers;
  std::vector<FlowNetwork::LinkIndex> links;
  for (const FlowChain& chain : chains) {
    first.push_back(transfers.size());
    for (const FlowChain::Flow& flow : chain.flows) {
      transfers.push_back({.first_link = static_cast<std::uint32_t>(links.size()),
                           .num_links = static_cast<std::uint32_t>(flow.route.size()),
                           .bytes = flow.bytes});
      links.insert(links.end(), flow.route.begin(), flow.route.end());
    }
  }
  std::vector<std::size_t> chain_of_flow;
  for (std::size_t i = 0; i < chains.size(); ++i) ends[i].reserve(chains[i].flows.size());
  const auto begin = [&](std::size_t chain, std::int64_t now) {
    const Transfer& transfer = transfers[first[chain] + ends[chain].size()];
    const std::span<const FlowNetwork::LinkIndex> route(links.data() + transfer.first_link, transfer.num_links);
    const FlowNetwork::Flow number = network.Start(now, route, transfer.bytes);
    if (number >= chain_of_flow.size()) chain_of_flow.resize(number + 1);
    chain_of_flow[number] = chain;
  };
  const std::clock_t start = std::clock();
  std::size_t next = 0;
  while (true) {
    const std::optional<std::int64_t> end = network.NextEnd();
    if (next < starts.size() && (!end || starts[next].first < *end)) {
      begin(starts[next].second, starts[next].first);
      ++next;
      continue;
    }
    if (!end) break;
    const std::size_t chain = chain_of_flow[network.End()];
    ends[chain].push_back(*end);
    if (ends[chain].size() < chains[chain].flows.size()) begin(chain, *end);
  }
  run.seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  return run;
}

}  // namespace emplace::testing
