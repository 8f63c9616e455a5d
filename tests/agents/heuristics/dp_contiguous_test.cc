#include "agents/heuristics/dp_contiguous.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "agents/agent.h"
#include "agents/environment.h"
#include "sim/grouping.h"
#include "sim/simulator.h"
#include "tests/testing/errors.h"
#include "tests/testing/graphs.h"
#include "tests/testing/observations.h"

namespace emplace::agents {
namespace {

using ::emplace::testing::Build;
using ::emplace::testing::Devices;
using ::emplace::testing::MakeOp;
using ::testing::ElementsAre;

Placement Placed(const Graph& graph, const Cluster& cluster, const OptionMap& options = {}) {
  return testing::FirstProposal(MakeDpContiguousAgent, options, graph, cluster);
}

TEST(DpContiguousTest, CutsAChainIntoStages) {
  EXPECT_THAT(Devices(Placed(testing::MakeChain(4, 10, 0), testing::MakeCluster(2))), ElementsAre(0, 0, 1, 1));
}

TEST(DpContiguousTest, CrossingsOverTheHostCostMore) {
  // 1 us directly between the GPUs, 100 us to the CPU.
  const std::vector<Device> devices = {{.name = "cpu:0", .kind = "test-cpu", .memory = std::nullopt, .is_cpu = true},
                                       {.name = "gpu:0", .kind = "test-gpu", .memory = std::nullopt},
                                       {.name = "gpu:1", .kind = "test-gpu", .memory = std::nullopt}};
  std::vector<Link> links(9, {.bandwidth_gb_per_s = 1, .latency_micros = 0, .gap_micros = 0});
  for (const std::size_t i : {1U, 2U, 3U, 6U}) links[i].bandwidth_gb_per_s = 0.01;
  const Cluster cluster("c", "", devices, links, Channels::kPerDevice);
  std::vector<OpSpec> specs;
  for (const char* const name : {"a", "b"}) {
    OpSpec spec = MakeOp(name, 0, specs.empty() ? std::vector<std::string>{} : std::vector<std::string>{"a"}, {1000});
    spec.time_micros = std::nullopt;
    spec.kind_times = {{"test-cpu", 1000}, {"test-gpu", 10}};
    specs.push_back(spec);
  }
  EXPECT_THAT(Devices(Placed(Build(specs), cluster)), ElementsAre(1, 2));
  EXPECT_THAT(Devices(Placed(Build(specs), cluster, {{"crossing", "host"}})), ElementsAre(1, 1));
}

TEST(DpContiguousTest, FewerBytesCountWhereNoSplitFits) {
  // Each op has 60 bytes of weights and writes 60; a device has 130.
  std::vector<OpSpec> specs;
  for (int i = 0; i < 4; ++i) {
    specs.push_back(MakeOp("op" + std::to_string(i), 10,
                           i == 0 ? std::vector<std::string>{} : std::vector<std::string>{"op" + std::to_string(i - 1)},
                           {60}));
    specs.back().persistent = Bytes{i < 3 ? 40 : 100};
  }
  const Graph graph = Build(specs);
  // In all, 2 devices are too few; of weights alone, the last op and one other are too many for one device.
  const Cluster small = testing::MakeCluster(2, {.bandwidth_gb_per_s = 1}, 0, Bytes{130});
  EXPECT_THAT(Devices(Placed(graph, small)), ElementsAre(0, 0, 0, 1));
  EXPECT_THAT(Devices(Placed(graph, small, {{"memory", "none"}})), ElementsAre(0, 0, 1, 1));
  // Not even weights fit.
  const Cluster tiny = testing::MakeCluster(2, {.bandwidth_gb_per_s = 1}, 0, Bytes{1});
  EXPECT_THAT(Devices(Placed(graph, tiny)), ElementsAre(0, 0, 1, 1));
}

TEST(DpContiguousTest, WhatMustBeTogetherButMayNotGoesToTheFastestDevices) {
  // The group of a and c is on the CPU, and b, which is on the cycle through it, on the GPU.
  std::vector<OpSpec> specs = {MakeOp("a", 0), MakeOp("b", 0, {"a"}), MakeOp("c", 0, {"b"})};
  for (OpSpec& spec : specs) {
    spec.time_micros = std::nullopt;
    spec.kind_times = {{spec.name == "b" ? "test-gpu" : "test-cpu", 1}};
  }
  specs[2].colocate_with = "a";
  EXPECT_THAT(Devices(Placed(Build(specs), testing::MakeMixedCluster(1))), ElementsAre(0, 1));
}

TEST(DpContiguousTest, TooManyIdealsAreRefusedUnlessOneOrderWillDo) {
  const Graph graph = testing::MakeForkJoin(12, 1, 0);
  const Cluster cluster = testing::MakeCluster(2);
  EXPECT_EQ(testing::ErrorOf([&] {
              Placed(graph, cluster, {{"max_ideals", "1000"}});
            }),
            "dp_contiguous: ideals: the 14 units of the graph have at least 2^12 ideals (at most 1000: merge ops with "
            "--grouping merge_and_colocate --groups N, or set linear=true)");
  EXPECT_TRUE(testing::IsAllowed(testing::MakeObservation(graph, cluster),
                                 Placed(graph, cluster, {{"max_ideals", "1000"}, {"linear", "true"}})));
}

TEST(DpContiguousTest, PlacesTheGroupsThatItIsGiven) {
  const Graph graph = testing::MakeChain(4, 10, 0);
  const Cluster cluster = testing::MakeCluster(2);
  const CostTable costs = testing::MeasuredCosts(graph, cluster);
  const Simulator simulator(graph, cluster, costs);
  const std::vector<std::size_t> labels = {0, 0, 0, 1};
  const Environment env(graph, cluster, costs, Grouping(graph, labels), simulator);
  EXPECT_THAT(Devices(PlaceContiguously(env, {})), ElementsAre(0, 1));
}

}  // namespace
}  // namespace emplace::agents
