#include "datasets/exporters/chakra.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/check.h"
#include "sim/cost/cost_models.h"
#include "sim/simulator.h"
#include "tests/testing/errors.h"
#include "tests/testing/graphs.h"

namespace emplace::testing {
namespace {

using datasets::ChakraNode;
using datasets::ChakraRank;

struct PlacedStep {
  Graph graph;
  Cluster cluster;
  Placement placement;
};

std::vector<ChakraRank> RanksOf(const PlacedStep& step) {
  const CostTable costs = MeasuredCosts(step.graph, step.cluster);
  const Simulator simulator(step.graph, step.cluster, costs, {.peak_memory = false});
  return datasets::MakeChakraRanks(step.graph, step.cluster, step.placement, simulator.Record(step.placement));
}

// Through the bytes of a file.
std::vector<ChakraRank> Again(const std::vector<ChakraRank>& ranks) {
  std::vector<ChakraRank> read;
  for (const ChakraRank& rank : ranks) {
    std::stringstream bytes;
    datasets::WriteChakra(bytes, rank.nodes);
    ChakraRank& copy = read.emplace_back(ChakraRank{.rank = rank.rank});
    datasets::ReadChakra(bytes, [&](ChakraNode&& node) { copy.nodes.push_back(std::move(node)); });
  }
  return read;
}

double StepOf(const datasets::Imported& imported) {
  const CostTable costs(imported.graph, *imported.cluster, *MakeMeasuredCostModel());
  return Simulator(imported.graph, *imported.cluster, costs).Run(*imported.placement).step_time_micros;
}

TEST(ExportChakraTest, AChainOverTwoDevicesIsAnOpAMessageAndAnOp) {
  Placement placement(2);
  placement[OpId{1}] = DeviceId{1};
  const Cluster cluster = MakeCluster(2, {.bandwidth_gb_per_s = 1, .latency_micros = 0.5, .gap_micros = 0});
  const std::vector<ChakraRank> ranks = Again(RanksOf({MakeChain(2, 4, 2000), cluster, placement}));
  ASSERT_EQ(ranks.size(), 2U);
  ASSERT_EQ(ranks[0].nodes.size(), 2U);
  const ChakraNode& op = ranks[0].nodes[0];
  const ChakraNode& send = ranks[0].nodes[1];
  EXPECT_EQ(op.name, "op0");
  EXPECT_EQ(op.type, ChakraNode::Type::kCompute);
  EXPECT_EQ(op.micros, 4U);
  EXPECT_EQ(op.nanos, 4000);
  EXPECT_EQ(op.bytes, 2000);
  EXPECT_FALSE(op.is_cpu);
  EXPECT_EQ(send.type, ChakraNode::Type::kSend);
  EXPECT_THAT(send.before, ::testing::ElementsAre(op.id));
  EXPECT_EQ(send.num_data, 1U);
  EXPECT_EQ(send.start_micros, 4U);
  EXPECT_EQ(send.nanos, 2500);
  EXPECT_EQ(send.micros, 3U);
  EXPECT_EQ(send.bytes, 2000);
  EXPECT_EQ(send.source, 0);
  EXPECT_EQ(send.destination, 1);
  ASSERT_EQ(ranks[1].nodes.size(), 2U);
  const ChakraNode& receive = ranks[1].nodes[0];
  EXPECT_EQ(receive.type, ChakraNode::Type::kReceive);
  EXPECT_EQ(receive.tag, send.tag);
  EXPECT_EQ(receive.nanos, 0);
  EXPECT_THAT(ranks[1].nodes[1].before, ::testing::ElementsAre(receive.id));
}

Cluster RandomDevices(Rng& rng) {
  const std::size_t count = 1 + rng.Below(5);
  std::vector<Device> devices;
  for (std::size_t d = 0; d < count; ++d) {
    const bool cpu = rng.Below(3) == 0;
    devices.push_back({.name = fmt::format("d{}", d),
                       .kind = cpu ? "test-cpu" : "test-gpu",
                       .memory = std::nullopt,
                       .op_gap_micros = static_cast<double>(rng.Below(3)) / 2,
                       .is_cpu = cpu,
                       .copy_engine = rng.Below(3) != 0});
  }
  std::vector<Link> links;
  for (std::size_t k = 0; k < count * count; ++k) {
    links.push_back({.bandwidth_gb_per_s = 0.3 + rng.Uniform(),
                     .latency_micros = static_cast<double>(rng.Below(4)) / 3,
                     .gap_micros = static_cast<double>(rng.Below(3)) / 2});
  }
  return Cluster("random", "", devices, links, rng.Below(2) == 0 ? Channels::kPerPair : Channels::kPerDevice);
}

TEST(ExportChakraTest, WhatIsImportedAgainHasTheSameStepTimeAndStarts) {
  Rng rng(5);
  std::size_t messages = 0;
  for (int i = 0; i < 400; ++i) {
    const Cluster cluster = RandomDevices(rng);
    RandomDagOptions options{.num_ops = 2 + rng.Below(60), .fractional = rng.Below(2) == 0};
    options.zero_time_probability = rng.Below(2) == 0 ? 0.1 : 0.5;
    const Graph graph = RandomDag(rng, options);
    const CostTable costs = MeasuredCosts(graph, cluster);
    const Placement placement = RandomPlacement(rng, graph, cluster, costs);
    const Simulator simulator(graph, cluster, costs, {.start_times = true});
    const StepResult expected = simulator.Run(placement);
    const std::vector<ChakraRank> ranks = Again(RanksOf({graph, cluster, placement}));
    const datasets::Imported imported = datasets::MakeChakraGraph(ranks);
    ASSERT_EQ(StepOf(imported), expected.step_time_micros) << "graph " << i;
    // Each op starts as before.
    const CostTable again(imported.graph, *imported.cluster, *MakeMeasuredCostModel());
    const StepResult result =
        Simulator(imported.graph, *imported.cluster, again, {.start_times = true}).Run(*imported.placement);
    std::size_t found = 0;
    for (std::size_t op = 0; op < imported.graph.num_ops(); ++op) {
      const std::string name(imported.graph.op(MakeId<OpId>(op)).name);
      const auto before = graph.FindOp(name.substr(name.find(' ') + 1));
      messages += imported.graph.op(MakeId<OpId>(op)).kind == "receive" ? 1 : 0;
      if (!before) continue;
      ASSERT_EQ(result.start_micros[op], expected.start_micros[Index(*before)]) << name;
      ++found;
    }
    ASSERT_EQ(found, graph.num_ops());
  }
  EXPECT_GT(messages, 1000U) << "messages are meant to be common";
}

TEST(ExportChakraTest, IssueLanesAreRefused) {
  std::vector<Device> devices = MakeCluster(1).devices();
  devices[0].issue = IssueLane();
  const Cluster fed = Cluster::Uniform("fed", devices, {});
  EXPECT_EQ(ErrorOf([&] {
              RanksOf({MakeChain(2, 1, 0), fed, Placement(2)});
            }),
            "cluster fed: has issue lanes, which Chakra's nodes cannot say (a cluster without)");
}

ChakraNode Node(std::uint64_t id, ChakraNode::Type type, std::uint64_t micros, std::vector<std::uint64_t> before = {}) {
  return {.id = id,
          .name = fmt::format("n{}", id),
          .type = type,
          .before = std::move(before),
          .micros = micros,
          .is_cpu = false};
}

TEST(ChakraRanksTest, CollectivesOfAllRanksStartTogetherAndTakeTheShortestTime) {
  using enum ChakraNode::Type;
  const std::vector<ChakraRank> ranks = {
      {0, {Node(1, kCompute, 10), Node(2, kCollective, 90, {1}), Node(3, kCompute, 1, {2})}},
      {1, {Node(1, kCompute, 70), Node(2, kCollective, 30, {1})}}};
  const datasets::Imported imported = datasets::MakeChakraGraph(ranks);
  EXPECT_EQ(StepOf(imported), 70 + 30 + 1);
  EXPECT_THAT(
      imported.notes,
      ::testing::Contains("1 collectives join 2 ranks: they start together and take the shortest of their times"));
}

TEST(ChakraRanksTest, WhatNobodySendsWaitsForNothing) {
  using enum ChakraNode::Type;
  ChakraNode send = Node(1, kSend, 5);
  send.destination = 1;
  ChakraNode receive = Node(1, kReceive, 0);
  receive.source = 0;
  const auto notes = [&](std::int64_t tag) {
    receive.tag = tag;
    return datasets::MakeChakraGraph({{0, {send}}, {1, {receive, Node(2, kCollective, 1)}}}).notes;
  };
  EXPECT_THAT(notes(0), ::testing::Contains("1 messages join 2 ranks"));
  EXPECT_THAT(notes(0), ::testing::Contains("the ranks have different numbers of collectives: they are not joined"));
  EXPECT_THAT(notes(1), ::testing::Contains("1 nodes receive a message that no rank sends: they do not wait"));
}

}  // namespace
}  // namespace emplace::testing
