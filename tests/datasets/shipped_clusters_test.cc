#include "datasets/shipped_clusters.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "datasets/models/registry.h"
#include "sim/base/check.h"
#include "sim/cost_model.h"
#include "sim/simulator.h"

namespace emplace {
namespace {

using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

TEST(ShippedClustersTest, AreThoseOfTheContract) {
  std::vector<std::string> names;
  for (const datasets::ShippedCluster& shipped : datasets::AllShippedClusters()) names.emplace_back(shipped.name);
  EXPECT_THAT(names,
              UnorderedElementsAre("p2.8xlarge", "hdp-8k40", "post-8k80", "sgdp-8p100", "dgx-h100", "2x-dgx-h100",
                                   "dgx-a100", "dgx-h200", "dgx-b200", "dgx-b300", "gb200-nvl72", "gb300-nvl72",
                                   "hgx-mi300x", "p5.48xlarge", "home-3090-3060", "home-lan", "home-macs"));
}

TEST(ShippedClustersTest, EachLoadsAndIsComplete) {
  for (const datasets::ShippedCluster& shipped : datasets::AllShippedClusters()) {
    const Cluster cluster = datasets::LoadCluster(std::string(shipped.name));
    EXPECT_EQ(cluster.name(), shipped.name);
    EXPECT_FALSE(cluster.source().empty()) << shipped.name;
    std::size_t accelerators = 0;
    for (const Device& device : cluster.devices()) {
      EXPECT_NE(cluster.FindKind(device.kind), nullptr) << device.kind;
      EXPECT_TRUE(device.memory.has_value()) << device.name;
      accelerators += device.is_cpu ? 0 : 1;
    }
    const std::map<std::string_view, std::size_t> others = {{"2x-dgx-h100", 16}, {"gb200-nvl72", 72},
                                                            {"gb300-nvl72", 72}, {"home-3090-3060", 2},
                                                            {"home-lan", 4},     {"home-macs", 2}};
    EXPECT_EQ(accelerators, others.contains(shipped.name) ? others.at(shipped.name) : 8U) << shipped.name;
    for (std::size_t from = 0; from < cluster.num_devices(); ++from) {
      for (std::size_t to = 0; to < cluster.num_devices(); ++to) {
        if (from == to) continue;
        EXPECT_TRUE(cluster.link(MakeId<DeviceId>(from), MakeId<DeviceId>(to)).exists()) << shipped.name;
      }
    }
  }
}

// Clusters of papers are as the papers have them.
TEST(ShippedClustersTest, OneThreadOfANodeIssuesTheOpsOfItsDevices) {
  const std::map<std::string, std::size_t> lanes = {
      {"dgx-h100", 1},   {"2x-dgx-h100", 2}, {"dgx-a100", 1},     {"dgx-h200", 1}, {"dgx-b200", 1},
      {"hgx-mi300x", 1}, {"p5.48xlarge", 1}, {"gb200-nvl72", 36}, {"dgx-b300", 1}, {"gb300-nvl72", 36}};
  for (const datasets::ShippedCluster& shipped : datasets::AllShippedClusters()) {
    const Cluster cluster = datasets::LoadCluster(std::string(shipped.name));
    std::set<std::string> names;
    for (const Device& device : cluster.devices()) {
      if (!device.issue) continue;
      EXPECT_GT(device.issue->host_micros, 0) << device.name;
      names.insert(device.issue->lane);
    }
    const auto found = lanes.find(cluster.name());
    EXPECT_EQ(names.size(), found == lanes.end() ? 0 : found->second) << cluster.name();
    if (!names.empty()) {
      EXPECT_THAT(cluster.source(), HasSubstr("launch"));
    }
  }
}

// One image is 11 ms of launches, however many GPUs there are.
TEST(ShippedClustersTest, AStepOfSmallOpsGainsNothingFromMoreGpus) {
  const Graph graph = datasets::MakeModel("inception_v3", {{"batch", "1"}});
  const Cluster cluster = datasets::LoadCluster("dgx-h100");
  const CostTable costs(graph, cluster, *MakeCostModel("roofline"));
  const Simulator simulator(graph, cluster, costs);
  const double one = simulator.Run(Placement(graph.num_ops(), *cluster.FindDevice("gpu:0"))).step_time_micros;
  double issued = 0;  // by the one thread of any placement
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const bool launches = graph.op(MakeId<OpId>(i)).kind != "variable" && graph.op(MakeId<OpId>(i)).kind != "input";
    issued += launches ? cluster.devices()[0].issue->host_micros : 0;
  }
  EXPECT_LT(one, 1.05 * issued);
  Placement spread(graph.num_ops());
  for (std::size_t i = 0; i < graph.num_ops(); ++i)
    spread[MakeId<OpId>(i)] = MakeId<DeviceId>(1 + i * 7 / graph.num_ops());
  EXPECT_GE(simulator.Run(spread).step_time_micros, issued);
}

TEST(ShippedClustersTest, P2HasTheConstantsOfThePublishedSimulator) {
  const Cluster cluster = datasets::LoadCluster("p2.8xlarge");
  const Link& link = cluster.link(MakeId<DeviceId>(1), MakeId<DeviceId>(8));
  EXPECT_EQ(link.bandwidth_gb_per_s * 1000, 7600);  // bytes per µs
  EXPECT_EQ(link.gap_micros, 25);
  EXPECT_EQ(cluster.devices()[3].op_gap_micros, 5.7);
}

TEST(ShippedClustersTest, NodesOfTheTwoNodeClusterAreJoinedByTheNetwork) {
  const Cluster cluster = datasets::LoadCluster("2x-dgx-h100");
  const auto link = [&cluster](const char* from, const char* to) {
    return cluster.link(*cluster.FindDevice(from), *cluster.FindDevice(to)).bandwidth_gb_per_s;
  };
  EXPECT_EQ(link("gpu:0", "gpu:7"), 360);
  EXPECT_EQ(link("gpu:7", "gpu:8"), 45);
  EXPECT_EQ(link("cpu:1", "gpu:15"), 50);
  EXPECT_EQ(link("cpu:0", "gpu:15"), 45);
}

TEST(ShippedClustersTest, TwoNodesOfOneAreTheTwoNodeCluster) {
  const Cluster two = datasets::LoadCluster("dgx-h100").Repeat(2);
  const Cluster shipped = datasets::LoadCluster("2x-dgx-h100");
  EXPECT_EQ(two.name(), "2x-dgx-h100");
  ASSERT_EQ(two.num_devices(), shipped.num_devices());
  for (std::size_t i = 0; i < two.num_devices(); ++i) {
    const DeviceId from = MakeId<DeviceId>(i);
    EXPECT_EQ(two.device(from).name, shipped.device(from).name);
    for (std::size_t k = 0; k < two.num_devices(); ++k) {
      EXPECT_EQ(two.link(from, MakeId<DeviceId>(k)), shipped.link(from, MakeId<DeviceId>(k)));
      EXPECT_EQ(two.topology().Route(i, k).size(), shipped.topology().Route(i, k).size());
    }
  }
  EXPECT_EQ(two.device(*two.FindDevice("gpu:3")).issue->lane, "host");
  EXPECT_EQ(two.device(*two.FindDevice("gpu:8")).issue->lane, "node1/host");
}

TEST(ShippedClustersTest, EachNodeOfManyKeepsItsLinks) {
  for (const std::string name :
       {"dgx-a100", "dgx-h200", "dgx-b200", "dgx-b300", "gb200-nvl72", "gb300-nvl72", "hgx-mi300x", "p5.48xlarge"}) {
    const Cluster node = datasets::LoadCluster(name);
    const Cluster many = node.Repeat(3);
    EXPECT_EQ(many.num_devices(), 3 * node.num_devices());
    EXPECT_FALSE(many.FindMissingLink().has_value()) << name;
    for (const Device& from : node.devices()) {
      for (const Device& to : node.devices()) {
        const auto link = [](const Cluster& cluster, const Device& a, const Device& b) {
          return cluster.link(*cluster.FindDevice(a.name), *cluster.FindDevice(b.name));
        };
        if (from.name == to.name) continue;
        EXPECT_EQ(link(many, from, to), link(node, from, to)) << from.name << " " << to.name;
      }
    }
  }
}

TEST(ShippedClustersTest, LinksOfTopologiesAreThoseOfTheDataSheets) {
  const Cluster cluster = datasets::LoadCluster("2x-dgx-h100");
  std::map<std::pair<double, double>, int> pairs;  // counts pairs of bandwidth and latency
  for (std::size_t from = 0; from < cluster.num_devices(); ++from) {
    for (std::size_t to = 0; to < cluster.num_devices(); ++to) {
      const Link& link = cluster.link(MakeId<DeviceId>(from), MakeId<DeviceId>(to));
      if (from != to) ++pairs[{link.bandwidth_gb_per_s, link.latency_micros}];
    }
  }
  EXPECT_THAT(pairs, ::testing::ElementsAre(::testing::Pair(std::pair(45.0, 5.0), 2 * 9 * 9),
                                            ::testing::Pair(std::pair(50.0, 8.0), 2 * 2 * 8),
                                            ::testing::Pair(std::pair(360.0, 2.5), 2 * 8 * 7)));
  // A GPU's network card and its host share its PCIe port.
  const auto route = [&cluster](const char* from, const char* to) {
    return cluster.topology().Route(Index(*cluster.FindDevice(from)), Index(*cluster.FindDevice(to)));
  };
  EXPECT_EQ(route("gpu:0", "gpu:8").front(), route("gpu:0", "cpu:0").front());
  EXPECT_EQ(route("gpu:0", "gpu:1").size(), 2U);
}

TEST(ShippedClustersTest, WhatIsNeitherNameNorFileIsToldTheNames) {
  try {
    datasets::LoadCluster("no-such-cluster");
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("no-such-cluster"));
    EXPECT_THAT(error.what(), HasSubstr("p2.8xlarge"));
  }
}

}  // namespace
}  // namespace emplace
