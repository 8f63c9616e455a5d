#include "datasets/importers/chakra.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "datasets/importers/importers.h"
#include "sim/cost/cost_models.h"
#include "sim/simulator.h"
#include "tests/datasets/importers/samples.h"

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

TEST(ImportChakraTest, TracesAreRecognised) {
  EXPECT_TRUE(datasets::LooksLikeChakra(kChakraSample));
  EXPECT_TRUE(datasets::LooksLikeChakra("{\"workload_graph\": ["));
  for (const std::string& other : {kEmplaceSample, kPipeDreamSample, kKinetoSample, kEtSample, std::string()}) {
    EXPECT_FALSE(datasets::LooksLikeChakra(other));
  }
}

}  // namespace
}  // namespace emplace::testing
