#include "tests/testing/simgrid_flows.h"

#include <simgrid/s4u.hpp>

#include <cmath>
#include <cstddef>
#include <ctime>
#include <map>
#include <string>

namespace emplace::testing {

namespace sg4 = simgrid::s4u;

SimGridRun SimulateBySimGrid(const std::vector<double>& bytes_per_ns, const std::vector<FlowChain>& chains) {
  std::string name = "simgrid";
  std::string quiet = "--log=root.thresh:critical";
  int argc = 2;
  char* argv[] = {name.data(), quiet.data(), nullptr};
  sg4::Engine engine(&argc, argv);
  sg4::Engine::set_config("network/model:CM02");
  sg4::Engine::set_config("network/crosstraffic:0");
  sg4::Engine::set_config("network/TCP-gamma:0");
  sg4::Engine::set_config("surf/precision:1e-12");
  sg4::Engine::set_config("maxmin/precision:1e-12");
  sg4::NetZone* const zone = sg4::create_full_zone("zone");
  std::vector<const sg4::Link*> links;
  for (std::size_t i = 0; i < bytes_per_ns.size(); ++i) {
    links.push_back(zone->create_link("link" + std::to_string(i), bytes_per_ns[i] * 1e9)->set_latency(0)->seal());
  }
  // A pair of hosts for each route that occurs: few hosts, since the table of routes has a row for each.
  std::map<std::vector<std::uint32_t>, std::size_t> routes;
  for (const FlowChain& chain : chains) {
    for (const FlowChain::Flow& flow : chain.flows) routes.emplace(flow.route, routes.size());
  }
  const auto side = static_cast<std::size_t>(std::ceil(std::sqrt(static_cast<double>(routes.size()))));
  std::vector<sg4::Host*> sources;
  std::vector<sg4::Host*> targets;
  for (std::size_t i = 0; i < side; ++i) {
    sources.push_back(zone->create_host("source" + std::to_string(i), 1e9)->seal());
    targets.push_back(zone->create_host("target" + std::to_string(i), 1e9)->seal());
  }
  for (const auto& [route, number] : routes) {
    std::vector<sg4::LinkInRoute> over;
    for (const std::uint32_t link : route) over.emplace_back(links[link]);
    zone->add_route(sources[number / side]->get_netpoint(), targets[number % side]->get_netpoint(), nullptr, nullptr,
                    over, false);
  }
  zone->seal();
  SimGridRun run;
  run.ends_ns.resize(chains.size());
  std::vector<std::vector<std::size_t>> numbers(chains.size());  // numbers of the routes
  for (std::size_t i = 0; i < chains.size(); ++i) {
    run.ends_ns[i].resize(chains[i].flows.size());
    for (const FlowChain::Flow& flow : chains[i].flows) numbers[i].push_back(routes.at(flow.route));
    sg4::Actor::create("chain" + std::to_string(i), sources[0],
                       [&chain = chains[i], &ends = run.ends_ns[i], &numbers = numbers[i], &sources, &targets, side] {
                         sg4::this_actor::sleep_until(static_cast<double>(chain.start_ns) / 1e9);
                         for (std::size_t k = 0; k < chain.flows.size(); ++k) {
                           const std::size_t number = numbers[k];
                           sg4::Comm::sendto(sources[number / side], targets[number % side],
                                             static_cast<std::uint64_t>(chain.flows[k].bytes));
                           ends[k] = sg4::Engine::get_clock() * 1e9;
                         }
                       });
  }
  const std::clock_t start = std::clock();
  engine.run();
  run.seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  return run;
}

}  // namespace emplace::testing
