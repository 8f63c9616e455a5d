#include "tests/testing/searches.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <limits>
#include <stdexcept>

#include "sim/simulator.h"
#include "tests/testing/graphs.h"

namespace emplace::testing {

agents::SearchSpec MakeSearch(const Graph& graph, const Cluster& cluster, const std::string& agent,
                              const OptionMap& options) {
  agents::SearchSpec spec{
      {}, {.graph = graph, .cluster = cluster, .costs = MeasuredCosts(graph, cluster), .grouping = "identity"}};
  spec.agent = agent;
  spec.agent_options = options;
  spec.threads = 1;
  return spec;
}

std::vector<std::size_t> PlacedBy(const std::string& agent, const Graph& graph, const Cluster& cluster,
                                  const OptionMap& options) {
  const agents::SearchResult result = agents::RunSearch(MakeSearch(graph, cluster, agent, options));
  std::vector<std::size_t> devices;
  if (!result.best) return devices;
  for (const DeviceId device : result.best->devices()) devices.push_back(Index(device));
  return devices;
}

agents::SearchResult StoppedAndResumed(agents::SearchSpec spec, const std::string& name,
                                       const std::vector<std::size_t>& stops) {
  spec.checkpoint = ::testing::TempDir() + "/" + name;
  std::remove(spec.checkpoint.c_str());
  for (const std::size_t stop : stops) {
    EXPECT_THROW(agents::RunSearch(spec,
                                   [&](const agents::SearchProgress& now) {
                                     if (now.evaluations >= stop) throw std::runtime_error("stopped");
                                   }),
                 std::runtime_error);
  }
  return agents::RunSearch(spec);
}

void ExpectTheAcceleratorIsLearned(const agents::SearchResult& result) {
  constexpr std::size_t kLast = 20;
  const std::size_t episodes = result.episodes.size();
  ASSERT_GT(episodes, kLast);
  EXPECT_TRUE(result.episodes.back().argmax);
  EXPECT_EQ(result.episodes.back().final_micros, 20);
  double micros = 0;
  for (std::size_t i = episodes - 1 - kLast; i + 1 < episodes; ++i) micros += result.episodes[i].final_micros / kLast;
  EXPECT_LT(micros, 0.81 * 20 + 0.18 * 100 + 0.01 * 200);
}

double FastestOfAll(const Graph& graph, const Cluster& cluster) {
  const CostTable costs = MeasuredCosts(graph, cluster);
  const Simulator simulator(graph, cluster, costs);
  double fastest = std::numeric_limits<double>::infinity();
  Placement placement(graph.num_ops());
  while (true) {
    bool allowed = true;
    for (std::size_t op = 0; op < graph.num_ops(); ++op) {
      const OpId id = MakeId<OpId>(op);
      allowed = allowed && costs.Allowed(id, placement[id]) && placement[id] == placement[graph.colocation_class(id)];
    }
    if (allowed) {
      const StepResult result = simulator.Run(placement);
      if (result.fits_memory) fastest = std::min(fastest, result.step_time_micros);
    }
    std::size_t op = 0;
    for (; op < graph.num_ops(); ++op) {
      DeviceId& device = placement[MakeId<OpId>(op)];
      if (Index(device) + 1 < cluster.num_devices()) {
        device = MakeId<DeviceId>(Index(device) + 1);
        break;
      }
      device = MakeId<DeviceId>(0);
    }
    if (op == graph.num_ops()) return fastest;
  }
}

}  // namespace emplace::testing
