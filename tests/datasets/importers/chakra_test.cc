#include "datasets/importers/chakra.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "datasets/importers/importers.h"
#include "datasets/shipped_clusters.h"
#include "sim/cost/cost_models.h"
#include "sim/simulator.h"
#include "tests/datasets/importers/samples.h"
#include "tests/testing/reference.h"

namespace emplace::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<datasets::ChakraNode> ReadMessages(const std::string& bytes) {
  std::istringstream in(bytes);
  std::vector<datasets::ChakraNode> nodes;
  datasets::ReadChakra(in, [&](datasets::ChakraNode&& node) { nodes.push_back(std::move(node)); });
  return nodes;
}

TEST(ReadChakraTest, MessagesAreNodes) {
  const std::vector<datasets::ChakraNode> nodes = ReadMessages(kChakraSample);
  ASSERT_EQ(nodes.size(), 2U);
  EXPECT_EQ(nodes[0].name, "host");
  EXPECT_EQ(nodes[0].micros, 5U);
  EXPECT_TRUE(nodes[0].is_cpu);
  EXPECT_THAT(nodes[0].before, IsEmpty());
  EXPECT_EQ(nodes[1].id, 2U);
  EXPECT_EQ(nodes[1].type, datasets::ChakraNode::Type::kCompute);
  EXPECT_FALSE(nodes[1].is_cpu);
  EXPECT_EQ(nodes[1].thread, 14);
  EXPECT_THAT(nodes[1].before, ElementsAre(1));
}

TEST(ReadChakraTest, DependenciesMayBePackedOrNotAndUnknownFieldsAreSkipped) {
  const std::string metadata = Message("");
  // data_deps [1, 300] packed, ctrl_deps 4 and 5 one by one, then a fixed64, a fixed32 and bytes that nobody knows.
  const std::string node = std::string("\x08\x09\x2a\x03\x01\xac\x02\x20\x04\x20\x05", 11) +
                           std::string(
                               "\xa1\x06"
                               "12345678",
                               10) +
                           std::string(
                               "\xad\x06"
                               "1234",
                               6) +
                           std::string("\xb2\x06\x02xy", 5);
  const std::vector<datasets::ChakraNode> nodes = ReadMessages(metadata + Message(node));
  ASSERT_EQ(nodes.size(), 1U);
  EXPECT_THAT(nodes[0].before, ElementsAre(1, 300, 4, 5));
}

TEST(ReadChakraTest, BrokenMessagesNameTheirPlace) {
  EXPECT_THAT(Refusal([] { ReadMessages(kChakraSample.substr(0, kChakraSample.size() - 3)); }),
              HasSubstr("is not a message of a Chakra trace: the file ends before its "));
  EXPECT_EQ(Refusal([] { ReadMessages(Message("") + "\xff\xff\xff\xff\x7f"); }),
            "byte 1: is not a message of a Chakra trace (a length, then the message)");
  EXPECT_EQ(Refusal([] { ReadMessages(Message("") + Message("\x0d")); }), "node 0: is not a Node of a Chakra trace");
  EXPECT_EQ(Refusal([] { ReadMessages(Message("") + Message("\x08\x01\x18\x09")); }),
            "node 0: is not a Node of a Chakra trace");
  EXPECT_THAT(
      Refusal([] { ReadMessages(Message("") + Message(std::string("\x08\x01\x38\xff\xff\xff\xff\xff\xff\x7f", 10))); }),
      HasSubstr("node 0: takes "));
}

std::vector<datasets::ChakraNode> ReadJsonNodes(const std::string& text) {
  std::istringstream in(text);
  std::vector<datasets::ChakraNode> nodes;
  datasets::ReadChakraJson(in, [&](datasets::ChakraNode&& node) { nodes.push_back(std::move(node)); });
  return nodes;
}

TEST(ReadChakraJsonTest, HoldsTheSameNodes) {
  const std::vector<datasets::ChakraNode> nodes = ReadJsonNodes(
      R"({"workload_graph": [{"Id": 3, "Name": "x", "NodeType": 7, "data_deps": [1], "ctrlDeps": [2], "runtime": 4,
          "is_cpu_op": false, "comm_type": 0, "comm_size": 64, "tid": 20}], "ngpus": 8})");
  ASSERT_EQ(nodes.size(), 1U);
  EXPECT_EQ(nodes[0].id, 3U);
  EXPECT_THAT(nodes[0].before, ElementsAre(1, 2));
  EXPECT_EQ(nodes[0].collective, 0);
  EXPECT_EQ(nodes[0].bytes, 64);
  EXPECT_EQ(nodes[0].thread, 20);
  // In the spellings and with the attributes of the protobuf.
  const std::vector<datasets::ChakraNode> same = ReadJsonNodes(
      R"({"workload_graph": [{"id": 3, "name": "x", "type": 7, "dataDeps": [1], "ctrl_deps": [2], "duration_micros": 4,
          "is_cpu_op": false, "comm_group": 5, "pg_size": 2}]})");
  EXPECT_THAT(same.at(0).before, ElementsAre(1, 2));
  EXPECT_EQ(same[0].micros, 4U);
  ASSERT_TRUE(same[0].groups);
  EXPECT_EQ(same[0].groups->name, "5");
  EXPECT_EQ(same[0].groups->size, 2);
  EXPECT_EQ(Refusal([] { ReadJsonNodes(R"({"workload_graph": [{"Id": 3}, {"Name": "x"}]})"); }),
            "workload_graph[1].Id: is missing (the id of a node)");
}

TEST(ImportChakraTest, NodesAreOpsOnThreadsAndStreams) {
  const datasets::Imported imported =
      ImportText(datasets::FindImporter("", kChakraSample, "c.et"), kChakraSample, "c.et");
  const Graph& graph = imported.graph;
  ASSERT_EQ(graph.num_ops(), 2U);
  EXPECT_EQ(graph.op(OpId{1}).name, "0000001 gemm");
  EXPECT_EQ(graph.op(OpId{1}).kind, "kernel");
  ASSERT_EQ(graph.control_inputs(OpId{1}).size(), 1U);
  ASSERT_TRUE(imported.cluster && imported.placement);
  EXPECT_EQ(imported.cluster->devices()[0].name, "gpu stream 14");
  EXPECT_EQ(imported.cluster->devices()[1].name, "thread 0");
  const CostTable costs(graph, *imported.cluster, *MakeMeasuredCostModel());
  EXPECT_EQ(Simulator(graph, *imported.cluster, costs).Run(*imported.placement).step_time_micros, 12);
  EXPECT_THAT(imported.notes, ElementsAre("nothing depends on 1 nodes of the accelerator",
                                          "attributed: all nodes have a place; 0.007 ms of accelerator time"));
}

TEST(MakeChakraGraphTest, MissingNodesAreCountedAndCyclesRefused) {
  datasets::ChakraNode a{.id = 1, .name = "a", .before = {77}, .thread = {}, .collective = {}, .bytes = {}};
  datasets::ChakraNode b{.id = 2, .name = "b", .before = {1}, .thread = {}, .collective = {}, .bytes = {}};
  EXPECT_EQ(datasets::MakeChakraGraph({{.nodes = {a, b}}}).notes[0],
            "1 dependencies are on nodes that are not in the trace: left out");
  a.before = {2};
  EXPECT_THAT(Refusal([&] { datasets::MakeChakraGraph({{.nodes = {a, b}}}); }), HasSubstr("0000000 a"));
  b.id = 1;
  EXPECT_EQ(Refusal([&] {
              datasets::MakeChakraGraph({{.nodes = {a, b}}});
            }),
            "node 1: the id 1 is another node's too (each id once)");
  EXPECT_EQ(Refusal([] { datasets::MakeChakraGraph({{}}); }), "holds no node");
}

std::string ChakraVarint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7U) bytes += static_cast<char>((value & 0x7fU) | 0x80U);
  return bytes + static_cast<char>(value);
}
// Fields of a protobuf message.
std::string ChakraBytes(std::uint64_t number, const std::string& bytes) {
  return ChakraVarint(number << 3U | 2U) + ChakraVarint(bytes.size()) + bytes;
}
std::string ChakraInteger(std::uint64_t number, std::uint64_t value) {
  return ChakraVarint(number << 3U) + ChakraVarint(value);
}
std::string ChakraAttributeField(const std::string& name, const std::string& value) {
  return ChakraBytes(10, ChakraBytes(1, name) + value);
}

datasets::ChakraNode ReadChakraNode(const std::string& fields) {
  return ReadMessages(Message("") + Message(fields)).at(0);
}

TEST(ReadChakraTest, AttributesAreReadInEveryType) {
  const std::string collective = ChakraInteger(1, 3) + ChakraInteger(3, 7);
  constexpr int kUint64 = 13;
  constexpr int kSint64 = 17;
  EXPECT_EQ(ReadChakraNode(collective + ChakraAttributeField("pg_name", ChakraBytes(29, "tp"))).groups->name, "tp");
  EXPECT_EQ(ReadChakraNode(collective + ChakraAttributeField("pg_name", ChakraInteger(kUint64, 12))).groups->name,
            "12");
  EXPECT_EQ(ReadChakraNode(collective + ChakraAttributeField("comm_group", ChakraInteger(kSint64, 24))).groups->name,
            "12");
  EXPECT_EQ(ReadChakraNode(collective +
                           ChakraAttributeField("pg_name", ChakraBytes(30, ChakraBytes(1, "a") + ChakraBytes(1, "b"))))
                .groups->name,
            "a,b");
  EXPECT_EQ(ReadChakraNode(collective + ChakraAttributeField("pg_name", ChakraBytes(10, ChakraBytes(1, "\x01\x02"))))
                .groups->name,
            "1,2");
  EXPECT_EQ(ReadChakraNode(collective + ChakraAttributeField("comm_size", ChakraBytes(29, "4096"))).bytes, 4096);
  EXPECT_EQ(
      ReadChakraNode(collective + ChakraAttributeField("num_ops", std::string("\x19\0\0\0\0\0\0\x59\x40", 9))).flop,
      100);  // a double
  EXPECT_EQ(ReadChakraNode(collective + ChakraAttributeField("group_size", ChakraInteger(kUint64, 2))).groups->size, 2);
  EXPECT_TRUE(ReadChakraNode(collective + ChakraAttributeField("involved_dim",
                                                               ChakraBytes(28, ChakraBytes(1, std::string("\1\0", 2)))))
                  .groups->leaves_out_dimensions);
  EXPECT_FALSE(
      ReadChakraNode(collective + ChakraAttributeField("involved_dim", ChakraBytes(28, ChakraBytes(1, "\1\1"))))
          .groups);
  // Without is_cpu_op: communication and work are an accelerator's.
  EXPECT_FALSE(ReadChakraNode(collective).is_cpu);
  EXPECT_FALSE(ReadChakraNode(ChakraInteger(1, 3) + ChakraInteger(3, 4) +
                              ChakraAttributeField("num_ops", ChakraInteger(kUint64, 9)))
                   .is_cpu);
  EXPECT_TRUE(ReadChakraNode(ChakraInteger(1, 3) + ChakraInteger(3, 4)).is_cpu);
  const std::string listed = R"(['[{"pg_name": "1", "ranks": [0, 1]}]'])";
  EXPECT_EQ(ReadChakraNode(ChakraInteger(1, 3) + ChakraBytes(2, "## process_group:init ##") +
                           ChakraBytes(8, ChakraBytes(1, listed)))
                .groups->listed,
            listed);
}

TEST(ReadChakraTest, AFileWithoutMetadataLosesNoNode) {
  EXPECT_EQ(ReadMessages(Message(ChakraInteger(1, 3)) + Message(ChakraInteger(1, 4))).size(), 2U);
}

// A step on ranks of a cluster, with the engine fifo and the times of the trace or roofline.
double ChakraStepMicros(const datasets::Imported& imported, const CostModel& model) {
  const CostTable costs(imported.graph, *imported.cluster, model);
  return Simulator(imported.graph, *imported.cluster, costs).Run(*imported.placement).step_time_micros;
}

datasets::ChakraNode ComputeNode(std::uint64_t id, std::uint64_t micros, std::vector<std::uint64_t> before = {}) {
  datasets::ChakraNode node{
      .id = id, .name = "op", .type = datasets::ChakraNode::Type::kCompute, .before = std::move(before)};
  node.micros = micros;
  node.is_cpu = false;
  return node;
}
std::shared_ptr<const datasets::ChakraNodeGroups> ChakraGroupNamed(const std::string& name) {
  return std::make_shared<datasets::ChakraNodeGroups>(datasets::ChakraNodeGroups{.name = name});
}
datasets::ChakraNode AllReduceNode(std::uint64_t id, const std::string& group, std::uint64_t micros,
                                   std::uint64_t before) {
  datasets::ChakraNode node = ComputeNode(id, micros, {before});
  node.type = datasets::ChakraNode::Type::kCollective;
  node.collective = 0;
  node.bytes = 100'000'000;
  node.groups = ChakraGroupNamed(group);
  return node;
}

TEST(MakeChakraGraphTest, CollectivesJoinTheRanksOfTheirGroup) {
  std::vector<datasets::ChakraRank> ranks;
  for (const std::int64_t rank : {0, 1, 2, 3}) {
    const bool is_first = rank < 2;
    ranks.push_back({.rank = rank,
                     .nodes = {ComputeNode(1, is_first ? 100 : 1000), AllReduceNode(2, is_first ? "tp0" : "tp1", 50, 1),
                               ComputeNode(3, is_first ? 1000 : 10, {2})}});
  }
  EXPECT_EQ(ChakraStepMicros(datasets::MakeChakraGraph(ranks), *MakeMeasuredCostModel()), 1150);
  // One name for both groups, whose ranks a file gives: ranks 2 and 3 are also joined with nobody else.
  for (datasets::ChakraRank& rank : ranks) rank.nodes[1].groups = ChakraGroupNamed("tp");
  EXPECT_EQ(ChakraStepMicros(datasets::MakeChakraGraph(ranks), *MakeMeasuredCostModel()), 2050);
  for (datasets::ChakraRank& rank : ranks) {
    datasets::ChakraNode lists{
        .id = 9, .name = "## process_group:init ##", .type = datasets::ChakraNode::Type::kMetadata};
    lists.groups = std::make_shared<datasets::ChakraNodeGroups>(
        datasets::ChakraNodeGroups{.listed = rank.rank < 2 ? R"([{"pg_name": "tp", "ranks": [0, 1]}])"
                                                           : R"([{"pg_name": "tp", "ranks": [2, 3]}])"});
    rank.nodes.push_back(lists);
  }
  EXPECT_EQ(ChakraStepMicros(datasets::MakeChakraGraph(ranks), *MakeMeasuredCostModel()), 1150);
}

// 2 TFLOP and an all-reduce of 100 MB on each rank, without durations.
std::vector<datasets::ChakraRank> WorkloadRanks(int ranks) {
  std::vector<datasets::ChakraRank> made;
  for (int rank = 0; rank < ranks; ++rank) {
    datasets::ChakraNode product = ComputeNode(1, 0);
    product.flop = 2'000'000'000'000;
    product.bytes = 100'000'000;
    made.push_back({.rank = rank, .nodes = {product, AllReduceNode(2, "", 0, 1)}});
  }
  return made;
}

TEST(MakeChakraGraphTest, ARateTimesWorkAndTheClusterItsCollectives) {
  const Cluster cluster = datasets::LoadCluster("dgx-h100");
  const datasets::Imported imported = datasets::MakeChakraGraph(WorkloadRanks(4), {.groups = {}, .cluster = &cluster});
  const auto costs = MakeRooflineCostModel();
  const double step = ChakraStepMicros(imported, *costs);
  // One rank's product, and what the model of collectives says of 100 MB between four.
  const DeviceKind& h100 = *FindDeviceKind("h100");
  const PrecisionRate rate = RateOf(h100, Precision::kBf16);
  const double product =
      h100.launch_micros +
      2e12 / (rate.peak.count * rate.efficiency[static_cast<std::size_t>(OpClass::kMatrixProduct)]) * 1e6;
  ASSERT_EQ(imported.graph.collectives().size(), 1U);
  EXPECT_EQ(imported.graph.collectives()[0].size.count, 100'000'000);
  EXPECT_EQ(imported.graph.collectives()[0].members.size(), 4U);
  EXPECT_GT(step, product * h100.time_scale + 100e6 * 1.5 / 450e9 * 1e6);
  EXPECT_LT(step, product * h100.time_scale + 2000);
  // Without a rate nothing has a time, and nothing takes 0.
  EXPECT_THAT(Refusal([&] { ChakraStepMicros(imported, *MakeMeasuredCostModel()); }),
              HasSubstr("has no time on any device"));
  EXPECT_FALSE(datasets::MakeChakraGraph(WorkloadRanks(4)).cluster);
}

TEST(MakeChakraGraphTest, WhatAWorkloadDoesNotSayIsNoted) {
  const Cluster cluster = datasets::LoadCluster("dgx-h100");
  const auto notes = [&](auto change) {
    std::vector<datasets::ChakraRank> workload = WorkloadRanks(2);
    for (datasets::ChakraRank& rank : workload) change(rank.rank, &rank.nodes[1]);
    return datasets::MakeChakraGraph(workload, {.groups = {}, .cluster = &cluster}).notes;
  };
  using Node = datasets::ChakraNode;
  using ::testing::Contains;
  EXPECT_THAT(notes([](std::int64_t, Node*) {}), ::testing::SizeIs(3));
  EXPECT_THAT(notes([](std::int64_t, Node* node) { node->bytes.reset(); }),
              Contains("2 collectives and messages have no size (comm_size) and no duration: they move 0 bytes"));
  EXPECT_THAT(notes([](std::int64_t, Node* node) {
                node->collective = 9;
                node->bytes.reset();
              }),
              ::testing::SizeIs(3));  // a barrier has none
  EXPECT_THAT(notes([](std::int64_t rank, Node* node) { node->bytes = 100 + rank; }),
              Contains("1 collective with different sizes on the ranks: the largest is taken"));
  EXPECT_THAT(notes([](std::int64_t, Node* node) { node->collective.reset(); }),
              Contains("2 of these are collectives without a comm_type that is known (0 to 9): nothing times them"));
  EXPECT_THAT(notes([](std::int64_t, Node* node) {
                constexpr int kSint64 = 17;  // -1 is 1 there
                *node = ReadChakraNode(ChakraInteger(1, 2) + ChakraInteger(3, 4) +
                                       ChakraAttributeField("num_ops", ChakraInteger(kSint64, 1)));
              }),
              Contains("2 nodes with a negative size, work or duration, which is left out"));
}

TEST(MakeChakraGraphTest, ACollectiveOfRanksThatAreNotGivenHasNoTime) {
  const Cluster cluster = datasets::LoadCluster("dgx-h100");
  const auto make = [&](int ranks, const datasets::ChakraGroups& groups) {
    std::vector<datasets::ChakraRank> workload = WorkloadRanks(ranks);
    for (datasets::ChakraRank& rank : workload) rank.nodes[1].groups = ChakraGroupNamed(groups.empty() ? "" : "dp");
    return datasets::MakeChakraGraph(workload, {.groups = groups, .cluster = &cluster});
  };
  const auto refusal = [](const datasets::Imported& imported) {
    return Refusal([&] { ChakraStepMicros(imported, *MakeRooflineCostModel()); });
  };
  EXPECT_THAT(refusal(make(1, {})),
              HasSubstr("whose other ranks are not in the graph: import the traces of all ranks"));
  EXPECT_THAT(refusal(make(2, {{"dp", {0, 1, 2}}})), HasSubstr("whose other ranks are not in the graph"));
  EXPECT_GT(ChakraStepMicros(make(2, {{"dp", {0, 1}}}), *MakeRooflineCostModel()), 0);
}

TEST(MakeChakraGraphTest, AMessageOfAWorkloadIsATensor) {
  const Cluster cluster = datasets::LoadCluster("dgx-h100");
  datasets::ChakraNode send = ComputeNode(1, 0);
  send.type = datasets::ChakraNode::Type::kSend;
  send.bytes = 450'000'000;
  send.destination = 1;
  send.tag = 7;
  datasets::ChakraNode receive = send;
  receive.type = datasets::ChakraNode::Type::kReceive;
  receive.destination = std::nullopt;
  receive.source = 0;
  const datasets::Imported imported = datasets::MakeChakraGraph(
      {{.rank = 0, .nodes = {send}}, {.rank = 1, .nodes = {receive}}}, {.groups = {}, .cluster = &cluster});
  const Link& link = cluster.link(*cluster.FindDevice("gpu:0"), *cluster.FindDevice("gpu:1"));
  EXPECT_NEAR(ChakraStepMicros(imported, *MakeRooflineCostModel()),
              450e3 / link.bandwidth_gb_per_s + link.latency_micros, 10);  // and two launches
  receive.tag = 8;                                                         // belongs to another message
  EXPECT_THAT(Refusal([&] {
                ChakraStepMicros(
                    datasets::MakeChakraGraph({{.rank = 0, .nodes = {send}}, {.rank = 1, .nodes = {receive}}},
                                              {.groups = {}, .cluster = &cluster}),
                    *MakeRooflineCostModel());
              }),
              HasSubstr("whose other ranks are not in the graph"));
}

TEST(MakeChakraGraphTest, AReceiveThatWaitedEndsWithItsSend) {
  const auto step_of = [](std::uint64_t received) {
    datasets::ChakraNode send = ComputeNode(2, 20, {1});
    send.type = datasets::ChakraNode::Type::kSend;
    send.destination = 1;
    datasets::ChakraNode receive = ComputeNode(2, received, {1});
    receive.type = datasets::ChakraNode::Type::kReceive;
    receive.source = 0;
    const datasets::Imported imported =
        datasets::MakeChakraGraph({{.rank = 0, .nodes = {ComputeNode(1, 100), send}},
                                   {.rank = 1, .nodes = {ComputeNode(1, 10), receive, ComputeNode(3, 30, {2})}}});
    return ChakraStepMicros(imported, *MakeMeasuredCostModel());
  };
  EXPECT_EQ(step_of(110), 150);  // it waited from 10 to 100 us
  EXPECT_EQ(step_of(20), 150);
  EXPECT_EQ(step_of(5), 155);  // what had arrived is taken
}

TEST(MakeChakraGraphTest, WhatHasADurationKeepsItInAWorkload) {
  const Cluster cluster = datasets::LoadCluster("dgx-h100");
  std::vector<datasets::ChakraRank> ranks = WorkloadRanks(1);
  ranks[0].nodes.pop_back();
  ranks[0].nodes[0].bytes = std::nullopt;
  const double product =
      ChakraStepMicros(datasets::MakeChakraGraph(ranks, {.groups = {}, .cluster = &cluster}), *MakeRooflineCostModel());
  ranks[0].nodes.push_back(ComputeNode(2, 5000, {1}));
  EXPECT_NEAR(
      ChakraStepMicros(datasets::MakeChakraGraph(ranks, {.groups = {}, .cluster = &cluster}), *MakeRooflineCostModel()),
      product + 5000, 10);
  EXPECT_EQ(Refusal([&] {
              datasets::MakeChakraGraph({{.nodes = {ComputeNode(1, 5)}}}, {.groups = {}, .cluster = &cluster});
            }),
            "--cluster: cannot be used (the nodes of the trace have times, on devices of their own)");
  EXPECT_THAT(Refusal([&] { datasets::MakeChakraGraph(WorkloadRanks(9), {.groups = {}, .cluster = &cluster}); }),
              HasSubstr("--cluster: has 8 accelerators for 9 ranks"));
}

TEST(ImportChakraTest, TracesAreRecognised) {
  // A first message that is cut.
  const std::string metadata = ChakraBytes(2, ChakraBytes(1, "schema") + ChakraBytes(8, std::string(3000, 'x')));
  const std::string whole = ChakraBytes(1, metadata).substr(1);  // its length, and itself
  EXPECT_TRUE(datasets::LooksLikeChakra(whole.substr(0, 500)));
  EXPECT_FALSE(datasets::LooksLikeChakra(whole.substr(0, 6)));
  EXPECT_FALSE(datasets::LooksLikeChakra(std::string("\xda\xd0\x01 no metadata at all")));
  // proto3 leaves out an id of 0, and a name that is empty.
  EXPECT_TRUE(datasets::LooksLikeChakra(Message(ChakraBytes(1, "0.0.4")) +
                                        Message(ChakraBytes(2, "gemm") + ChakraInteger(3, 4))));
  EXPECT_TRUE(datasets::LooksLikeChakra(Message("") + Message(ChakraInteger(3, 4) + ChakraInteger(7, 10))));
  EXPECT_FALSE(datasets::LooksLikeChakra(Message(ChakraBytes(1, "0.0.4")) +
                                         Message(ChakraBytes(2, "gemm") + ChakraInteger(3, 99))));
  EXPECT_TRUE(datasets::LooksLikeChakra(kChakraSample));
  EXPECT_TRUE(datasets::LooksLikeChakra("{\"workload_graph\": ["));
  for (const std::string& other : {kEmplaceSample, kPipeDreamSample, kKinetoSample, kEtSample, std::string()}) {
    EXPECT_FALSE(datasets::LooksLikeChakra(other));
  }
}

// The examples of astra-sim: collectives alone, and sends and receives.
TEST(ImportChakraTest, TracesOfAstraSimAreRecognisedAndTimed) {
  const std::string folder = ReferenceFolder("astra-sim+astra-sim");
  if (folder.empty()) GTEST_SKIP() << "no astra-sim+astra-sim in EMPLACE_REFERENCE_DATA";
  for (const std::string set :
       {"all_reduce_4npus_1MB/all_reduce", "custom_ring_allreduce_8npus_1MB/custom_allreduce"}) {
    std::vector<datasets::ImportSource> sources;
    for (int rank = 0;; ++rank) {
      const std::string file = folder + "/" + set + "." + std::to_string(rank) + ".et";
      if (!std::filesystem::exists(file)) break;
      sources.emplace_back(file);
      EXPECT_EQ(datasets::FindImporter("", sources.back().head(), file).name, "chakra") << file;
    }
    ASSERT_GE(sources.size(), 4U) << set;
    const datasets::Imported imported = datasets::ImportChakra(sources, {.cluster = "dgx-h100"});
    // A ring's bytes, 2 (n - 1) / n of 1 MB, at no more than 900 GB/s.
    const auto ranks = static_cast<double>(sources.size());
    EXPECT_GT(ChakraStepMicros(imported, *MakeRooflineCostModel()), 2 * (ranks - 1) / ranks * 1e6 / 900e9 * 1e6) << set;
  }
}

}  // namespace
}  // namespace emplace::testing
