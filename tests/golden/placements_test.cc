// The results of engine `fifo` for placements over several devices are in placements.csv. It has every network of
// `emplace list models` on every shipped cluster, and on made-up clusters for the rules that those do not use. The
// placements send many tensors. A change of a step, a start or a peak shows as a difference there. tools/update_goldens
// regenerates the file.

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "datasets/models/registry.h"
#include "datasets/shipped_clusters.h"
#include "sim/base/fingerprint.h"
#include "sim/cost_model.h"
#include "sim/formats/cluster_yaml.h"
#include "sim/groupers/groupers.h"
#include "sim/simulator.h"
#include "tests/golden/golden_file.h"

namespace emplace::testing {
namespace placements_test {

constexpr const char* kFile = "placements.csv";
constexpr const char* kHeader = "graph,cluster,placement,step_ns,peak_bytes,starts";

constexpr const char* kPairsOfGpus = R"(
schema: emplace.cluster
version: 1
name: a-channel-for-each-pair
devices: [{name: "cpu:0", kind: xeon-e5-2686v4}, {name: "gpu:0", kind: k80, count: 4}]
op_gap_us: 3
link: {bandwidth_gb_per_s: 7.6, latency_us: 5, gap_us: 2}
channels: pair
)";
constexpr const char* kCores = R"(
schema: emplace.cluster
version: 1
name: cores-that-send-by-themselves
devices: [{name: "cpu:0", kind: xeon-e5-2686v4, copy_engine: false, count: 4}]
link: {bandwidth_gb_per_s: 10, latency_us: 1}
)";

std::vector<Cluster> Clusters() {
  std::vector<Cluster> clusters;
  for (const datasets::ShippedCluster& shipped : datasets::AllShippedClusters())
    clusters.push_back(datasets::LoadCluster(std::string(shipped.name)));
  for (const char* const text : {kPairsOfGpus, kCores}) {
    std::istringstream in(text);
    clusters.push_back(ReadCluster(in, "cluster.yaml"));
  }
  return clusters;
}

struct FixedPlacement {
  const char* name;
  std::size_t (*device)(std::size_t group, std::size_t num_groups, std::size_t num_devices);
};
constexpr FixedPlacement kPlacements[] = {
    // Groups in topological order, divided into as many blocks as there are devices.
    {"blocks", [](std::size_t group, std::size_t groups, std::size_t devices) { return group * devices / groups; }},
    // Groups on the devices in turn: nearly every tensor is sent.
    {"in_turn", [](std::size_t group, std::size_t, std::size_t devices) { return group % devices; }},
};

std::string KeyOf(const Graph& graph, const Cluster& cluster, const FixedPlacement& placement) {
  return fmt::format("{},{},{},", graph.name(), cluster.name(), placement.name);
}

// `starts` is the fingerprint of the start of every op, in ns.
std::string RowOf(const Graph& graph, const Cluster& cluster, const CostTable& costs, const Grouping& groups,
                  const FixedPlacement& fixed) {
  Placement placement(graph.num_ops(), MakeId<DeviceId>(0));
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const OpId op = MakeId<OpId>(i);
    placement[op] = MakeId<DeviceId>(fixed.device(groups.group_of(op), groups.num_groups(), cluster.num_devices()));
  }
  const Simulator simulator(graph, cluster, costs, {.peak_memory = true, .start_times = true});
  const StepResult result = simulator.Run(placement);
  Fingerprint starts;
  for (const double micros : result.start_micros) starts.Add(fmt::format("{:.0f}", micros * 1000));
  Bytes peak;
  for (const Bytes device : result.peak_memory) peak += device;
  return fmt::format("{}{:.0f},{},{:016x}", KeyOf(graph, cluster, fixed), result.step_time_micros * 1000, peak.count,
                     starts.value());
}

std::vector<std::string> Rows() {
  std::vector<std::string> rows;
  const std::vector<Cluster> clusters = Clusters();
  for (const datasets::ModelEntry& model : datasets::AllModels()) {
    const Graph graph = datasets::MakeModel(model.name);
    const Grouping groups = ColocationClasses(graph);
    for (const Cluster& cluster : clusters) {
      const CostTable costs(graph, cluster, *MakeCostModel("roofline"));
      for (const FixedPlacement& placement : kPlacements) {
        rows.push_back(RowOf(graph, cluster, costs, groups, placement));
      }
    }
  }
  return rows;
}

TEST(PlacementGoldenTest, StepsWithTransfersAreWhatTheyWereLengthy) {
  const std::vector<std::string> rows = Rows();
  if (UpdatesGoldens(kFile, kHeader, rows)) GTEST_SKIP() << "wrote " << kFile;
  EXPECT_EQ(rows, ReadGoldens(kFile)) << "run tools/update_goldens";
}

// A new network or a new cluster needs rows.
TEST(PlacementGoldenTest, EveryNetworkOnEveryClusterHasARow) {
  std::set<std::string> keys;
  for (const std::string& line : ReadGoldens(kFile)) {
    std::size_t end = 0;
    for (int cells = 0; cells < 3; ++cells) end = line.find(',', end) + 1;
    keys.insert(line.substr(0, end));
  }
  std::size_t expected = 0;
  for (const datasets::ModelEntry& model : datasets::AllModels()) {
    const Graph graph = datasets::MakeModel(model.name);
    for (const Cluster& cluster : Clusters()) {
      for (const FixedPlacement& placement : kPlacements) {
        EXPECT_TRUE(keys.contains(KeyOf(graph, cluster, placement))) << KeyOf(graph, cluster, placement);
        ++expected;
      }
    }
  }
  EXPECT_EQ(keys.size(), expected);
}

}  // namespace placements_test
}  // namespace emplace::testing
