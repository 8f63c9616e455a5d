#include "datasets/importers/dnn_partitioning.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "datasets/importers/importers.h"
#include "sim/simulator.h"
#include "tests/datasets/importers/samples.h"
#include "tests/testing/graphs.h"
#include "tests/testing/reference.h"

namespace emplace::testing {
namespace dnn_partitioning_test {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

datasets::Imported Sample() { return datasets::ImportDnnPartitioning(kDnnPartitioningSample, "in.json"); }

datasets::Imported EditedSample(std::string_view from, std::string_view to) {
  return datasets::ImportDnnPartitioning(Edited(kDnnPartitioningSample, from, to), "in.json");
}

std::string Refused(std::string_view from, std::string_view to) {
  return Refusal([&] { EditedSample(from, to); });
}

TEST(DnnPartitioningTest, EachNodeIsAnOp) {
  const Graph graph = Sample().graph;
  std::vector<std::string> names;
  for (const OpId id : graph.file_order()) names.emplace_back(graph.op(id).name);
  EXPECT_THAT(names, ElementsAre("MatMul1", "_a_b", "node7grad"));
  const Op& first = FindOp(graph, "MatMul1");
  EXPECT_EQ(first.kind, "matmul");
  EXPECT_EQ(first.pass, Pass::kForward);
  EXPECT_EQ(first.attrs, "{\"id\":7}");
  EXPECT_EQ(first.layer, "layer5");
  EXPECT_EQ(first.persistent.count, 1024);
  const Op& gradient = FindOp(graph, "node7grad");
  EXPECT_EQ(gradient.kind, "layer_backward");
  EXPECT_EQ(gradient.pass, Pass::kBackward);
  EXPECT_EQ(gradient.layer, "");
  EXPECT_EQ(FindOp(graph, "_a_b").kind, "op");
}

TEST(DnnPartitioningTest, KindsThatWouldTakeNoTimeAreNotGuessed) {
  EXPECT_EQ(FindOp(EditedSample("MatMul1", "Variable1").graph, "Variable1").kind, "op");
  EXPECT_EQ(FindOp(EditedSample("MatMul1", "Input1").graph, "Input1").kind, "op");
}

TEST(DnnPartitioningTest, NodesWithoutANameOrWithATakenOneGoByTheirId) {
  EXPECT_TRUE(EditedSample("\"name\": \"MatMul1\", ", "").graph.FindOp("node7"));
  const Graph graph = EditedSample("^a:b", "MatMul1").graph;
  EXPECT_TRUE(graph.FindOp("MatMul1"));
  EXPECT_TRUE(graph.FindOp("MatMul1#9"));
}

// 10 ms and 1.5 ms.
TEST(DnnPartitioningTest, LatenciesAreMillisecondsOfTwoKinds) {
  const Graph graph = Sample().graph;
  const OpId op = graph.FindOp("MatMul1").value();
  EXPECT_EQ(graph.MeasuredMicros(op, datasets::kDnnPartitioningCpuKind), 10'000);
  EXPECT_EQ(graph.MeasuredMicros(op, datasets::kDnnPartitioningAcceleratorKind), 1500);
}

TEST(DnnPartitioningTest, ANodeThatAcceleratorsDoNotSupportHasNoTimeThere) {
  const Graph graph = Sample().graph;
  const OpId op = graph.FindOp("_a_b").value();
  EXPECT_EQ(graph.MeasuredMicros(op, datasets::kDnnPartitioningCpuKind), 2000);
  EXPECT_EQ(graph.MeasuredMicros(op, datasets::kDnnPartitioningAcceleratorKind), std::nullopt);
}

TEST(DnnPartitioningTest, AColourClassIsColocatedWithItsFirstNode) {
  const Graph graph = Sample().graph;
  EXPECT_EQ(FindOp(graph, "node7grad").colocate_with, graph.FindOp("MatMul1"));
  EXPECT_EQ(FindOp(graph, "MatMul1").colocate_with, std::nullopt);
  EXPECT_EQ(FindOp(graph, "_a_b").colocate_with, std::nullopt);
}

// The sizes of MatMul1's out-edges, ascending: 0.125 bytes, rounded to 0, and 4 GiB.
TEST(DnnPartitioningTest, TensorsAreTheSizesOfTheOutEdges) {
  const Graph graph = Sample().graph;
  EXPECT_THAT(Inputs(graph, "_a_b"), ElementsAre("MatMul1:0=0"));
  EXPECT_THAT(Inputs(graph, "node7grad"), ElementsAre("MatMul1:1=4294967296", "_a_b:0=2147483648"));
  EXPECT_EQ(graph.num_outputs(graph.FindOp("node7grad").value()), 0U);
  const Graph equal = EditedSample("\"size\": 0.125", "\"size\": 4294967296").graph;
  EXPECT_EQ(equal.num_outputs(equal.FindOp("MatMul1").value()), 1U);
}

TEST(DnnPartitioningTest, TheClusterHasTheFilesCountsAndMemory) {
  const Cluster cluster = Sample().cluster.value();
  ASSERT_EQ(cluster.num_devices(), 3U);
  EXPECT_EQ(cluster.devices()[0].name, "cpu:0");
  EXPECT_EQ(cluster.devices()[0].kind, datasets::kDnnPartitioningCpuKind);
  EXPECT_TRUE(cluster.devices()[0].is_cpu);
  EXPECT_EQ(cluster.devices()[0].memory, std::nullopt);
  EXPECT_EQ(cluster.devices()[2].name, "accelerator:1");
  EXPECT_EQ(cluster.devices()[2].kind, datasets::kDnnPartitioningAcceleratorKind);
  EXPECT_FALSE(cluster.devices()[2].is_cpu);
  EXPECT_EQ(cluster.devices()[2].memory, Bytes{4096});
}

// 2 GiB/s = 2.147483648 GB/s with a CPU, half of that between accelerators.
TEST(DnnPartitioningTest, LinksBetweenAcceleratorsAreHalfAsFast) {
  const Cluster cluster = EditedSample("\"maxCPUs\": 1", "\"maxCPUs\": 2").cluster.value();
  const auto rate = [&cluster](std::size_t from, std::size_t to) {
    const Link& link = cluster.link(MakeId<DeviceId>(from), MakeId<DeviceId>(to));
    EXPECT_EQ(link.latency_micros, 0);
    EXPECT_EQ(link.gap_micros, 0);
    return RateFromGbPerS(link.bandwidth_gb_per_s).count;
  };
  EXPECT_EQ(rate(0, 2), std::int64_t{2} << 30);
  EXPECT_EQ(rate(3, 1), std::int64_t{2} << 30);
  EXPECT_EQ(rate(2, 3), std::int64_t{1} << 30);
  EXPECT_EQ(rate(0, 1), 1'000'000'000'000'000'000);
}

// MatMul1 ends at 1.5 ms; its 4 GiB would take 4 s to the other accelerator, but node7grad is on the same one. `_a_b`
// takes 2 ms on the CPU, from 1.5 ms on, since its input has no bytes. Its 2 GiB arrive 1 s later. Then 3 ms.
TEST(DnnPartitioningTest, TransfersFollowFromSizeNotFromCost) {
  const datasets::Imported imported = Sample();
  Placement placement(3, MakeId<DeviceId>(1));
  placement[imported.graph.FindOp("_a_b").value()] = MakeId<DeviceId>(0);
  const CostTable costs = MeasuredCosts(imported.graph, *imported.cluster);
  const Simulator simulator(imported.graph, *imported.cluster, costs);
  EXPECT_EQ(simulator.Run(placement).step_time_micros, 1500 + 2000 + 1'000'000 + 3000);
}

TEST(DnnPartitioningTest, CostsAreThoseOfTheFile) {
  const std::string equal = Edited(kDnnPartitioningSample, "\"cost\": 0.0", "\"cost\": 2.0000001");
  const Graph graph = datasets::ImportDnnPartitioning(equal, "in.json").graph;
  const std::vector<double> costs = datasets::ImportCrossingCosts(equal, "in.json", graph);
  const auto cost = [&](std::string_view name) { return costs.at(Index(graph.FindOp(name).value())); };
  EXPECT_EQ(costs.size(), 3U);
  EXPECT_EQ(cost("MatMul1"), 2);
  EXPECT_EQ(cost("_a_b"), 1000);
  EXPECT_EQ(cost("node7grad"), 0);
  EXPECT_EQ(Refusal([&] { datasets::ImportCrossingCosts(kDnnPartitioningSample, "in.json", graph); }),
            "in.json: edges[1].cost: is 0 (the 2 of other edges from the node)");
  EXPECT_EQ(Refusal([&] { datasets::ImportCrossingCosts(Edited(equal, "\"cost\": 1000.0, ", ""), "in.json", graph); }),
            "in.json: edges[2].cost: is missing (a number from 0 to 4e+18)");
  EXPECT_EQ(Refusal([&] { datasets::ImportCrossingCosts(equal, "in.json", Graph()); }),
            "in.json: nodes[0]: is not an op of the graph (the file that the graph is from)");
}

TEST(DnnPartitioningTest, NotesSayWhatWasLeftOut) {
  // 4 GiB at 2 s agree with seconds, 0.125 bytes at 0 and 2 GiB at 1000 (ms) do not.
  EXPECT_THAT(
      EditedSample("\"colorClass\": 3", "\"flavour\": 1, \"colorClass\": 3").notes,
      ElementsAre("cost: left out, transfers follow from `size`",
                  "1 of 3 edges have a size that is not their cost at 2 GiB/s; the size is taken",
                  "1 edges have a fractional number of bytes: rounded to the nearest byte",
                  "1 nodes send several sizes: one tensor for each", "nodes[].flavour: left out, not of the format"));
}

TEST(DnnPartitioningTest, CostsInSecondsAreCalledThat) {
  const std::string note =
      "cost: left out, transfers follow from `size`; here it is in seconds beside latencies in ms, so plans made from "
      "it "
      "take transfers as 1000 times too cheap";
  EXPECT_THAT(EditedSample("\"cost\": 1000.0", "\"cost\": 1").notes, Contains(note));
  EXPECT_THAT(EditedSample("\"cost\": 2.0", "\"cost\": 2000").notes, Not(Contains(note)));
}

TEST(DnnPartitioningTest, HalvesThatAreNotJoinedAreNoted) {
  const std::string note = "no edge joins forward and backward nodes: as in the file, both halves may run at once";
  EXPECT_THAT(Sample().notes, Not(Contains(note)));
  const std::size_t edges = kDnnPartitioningSample.find("\"edges\"");
  EXPECT_THAT(datasets::ImportDnnPartitioning(kDnnPartitioningSample.substr(0, edges) + "\"edges\": []}", "f").notes,
              ElementsAre(note));
}

TEST(DnnPartitioningTest, MissingFieldsAreNamed) {
  const auto missing = [](std::string_view from) { return Refused(from, "\"x\": 0"); };
  EXPECT_EQ(missing("\"maxSizePerFPGA\": 4096.0"), "in.json: maxSizePerFPGA: is missing (a number from 0 to 4e+18)");
  EXPECT_EQ(missing("\"maxFPGAs\": 2"), "in.json: maxFPGAs: is missing (an integer from 0 to 256)");
  EXPECT_EQ(missing("\"maxCPUs\": 1"), "in.json: maxCPUs: is missing (an integer from 0 to 256)");
  EXPECT_EQ(Refused("\"nodes\"", "\"x\""), "in.json: nodes: is missing (a list of nodes)");
  EXPECT_EQ(Refused("\"edges\"", "\"x\""), "in.json: edges: is missing (a list of edges)");
  EXPECT_EQ(missing("\"id\": 7"), "in.json: nodes[0].id: is missing (an integer from 0 to 4611686018427387903)");
  EXPECT_EQ(missing("\"supportedOnFpga\": 1"), "in.json: nodes[0].supportedOnFpga: is missing (true or false, 1 or 0)");
  EXPECT_EQ(missing("\"cpuLatency\": 10.0"), "in.json: nodes[0].cpuLatency: is missing (a number from 0 to 1e+09)");
  EXPECT_EQ(missing("\"fpgaLatency\": 1.5"), "in.json: nodes[0].fpgaLatency: is missing (a number from 0 to 1e+09)");
  EXPECT_EQ(missing("\"isBackwardNode\": 0"), "in.json: nodes[0].isBackwardNode: is missing (true or false, 1 or 0)");
  EXPECT_EQ(missing("\"size\": 1024.0"), "in.json: nodes[0].size: is missing (a number from 0 to 4e+18)");
  EXPECT_EQ(missing("\"sourceId\": 7"), "in.json: edges[0].sourceId: is missing (the id of a node)");
  EXPECT_EQ(missing("\"destId\": 8"), "in.json: edges[0].destId: is missing (the id of a node)");
  EXPECT_EQ(missing("\"size\": 4294967296.0"), "in.json: edges[0].size: is missing (a number from 0 to 4e+18)");
  EXPECT_EQ(missing("\"cost\": 2.0"), "accepted");
  // An op that cannot run on an accelerator needs no time there.
  EXPECT_EQ(Refused("\"fpgaLatency\": 0.5, ", ""), "accepted");
}

TEST(DnnPartitioningTest, WrongTypesAndValuesAreNamed) {
  EXPECT_EQ(Refused("\"maxFPGAs\": 2", "\"maxFPGAs\": 257"),
            "in.json: maxFPGAs: is the number 257 (an integer from 0 to 256)");
  EXPECT_EQ(Refused("\"maxFPGAs\": 2, \"maxCPUs\": 1", "\"maxFPGAs\": 0, \"maxCPUs\": 0"),
            "in.json: maxCPUs: is 0, as is maxFPGAs (at least one device)");
  EXPECT_EQ(Refused("4096.0", "\"4096\""), "in.json: maxSizePerFPGA: is the text \"4096\" (a number from 0 to 4e+18)");
  EXPECT_EQ(Refused("\"supportedOnFpga\": 1", "\"supportedOnFpga\": 2"),
            "in.json: nodes[0].supportedOnFpga: is the number 2 (true or false, 1 or 0)");
  EXPECT_EQ(Refused("\"cpuLatency\": 10.0", "\"cpuLatency\": -1"),
            "in.json: nodes[0].cpuLatency: is the number -1 (a number from 0 to 1e+09)");
  EXPECT_EQ(Refused("\"colorClass\": 3", "\"colorClass\": 3.5"),
            "in.json: nodes[0].colorClass: is the number 3.5 (an integer, written without a point or an exponent)");
  EXPECT_EQ(Refused("\"MatMul1\"", "17"), "in.json: nodes[0].name: is the number 17 (a string)");
  EXPECT_EQ(Refused("\"size\": 4294967296.0", "\"size\": null"),
            "in.json: edges[0].size: is null (a number from 0 to 4e+18)");
  EXPECT_THAT(Refused("MatMul1", std::string(1001, 'x')), HasSubstr("(at most 1000 bytes)"));
  EXPECT_EQ(Refusal([] { datasets::ImportDnnPartitioning("[]", "in.json"); }),
            "in.json: is a list of 0 elements (an object)");
  EXPECT_THAT(Refusal([] { datasets::ImportDnnPartitioning("{\"maxCPUs\": ", "in.json"); }),
              HasSubstr("not valid JSON"));
  EXPECT_EQ(Refused("\"maxCPUs\": 1", "\"maxCPUs\": 1, \"maxCPUs\": 1"),
            "in.json: maxCPUs: duplicate key (each key once)");
}

TEST(DnnPartitioningTest, IdsAreDistinctAndEdgesEndAtNodes) {
  EXPECT_EQ(Refused("\"id\": 8", "\"id\": 7"), "in.json: nodes[2].id: 7 is the id of nodes[0] too (each id once)");
  EXPECT_EQ(Refused("\"sourceId\": 7", "\"sourceId\": 6"),
            "in.json: edges[0].sourceId: is the number 6 (the id of a node)");
  EXPECT_EQ(Refused("\"destId\": 8", "\"destId\": \"8\""),
            "in.json: edges[0].destId: is the text \"8\" (the id of a node)");
}

TEST(DnnPartitioningTest, ACycleIsNamed) {
  EXPECT_EQ(Refused("{\"sourceId\": 7, \"destId\": 9", "{\"sourceId\": 8, \"destId\": 9"),
            "in.json: ops[1]: the graph has a cycle: _a_b -> node7grad -> _a_b");
}

// The sizes in the README, and the totals of the files' own numbers.
TEST(DnnPartitioningReferenceTest, EveryFileImportsAndTotalsAreTheFiles) {
  const std::string folder = ReferenceFolder("msr-fiddle+dnn-partitioning");
  if (folder.empty()) GTEST_SKIP() << "the reference data is not here";
  std::size_t files = 0;
  for (const char* const inputs : {"/latency-inputs", "/throughput-inputs"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder + inputs)) {
      if (!entry.is_regular_file()) continue;
      ++files;
      const std::string file = entry.path().string();
      const std::string content = ReadWholeFile(file);
      const nlohmann::json json = nlohmann::json::parse(content);
      const datasets::Imported imported = datasets::ImportDnnPartitioning(content, file);
      const Graph& graph = imported.graph;
      EXPECT_EQ(datasets::FindImporter("", content, file).name, "dnn-partitioning") << file;
      EXPECT_EQ(graph.num_ops(), json.at("nodes").size()) << file;
      double cpu = 0;
      double accelerator = 0;
      double size = 0;
      for (const auto& node : json.at("nodes")) {
        cpu += node.at("cpuLatency").get<double>();
        accelerator += node.at("fpgaLatency").get<double>();
        size += node.at("size").get<double>();
      }
      double edge_size = 0;
      for (const auto& edge : json.at("edges")) edge_size += std::floor(edge.at("size").get<double>() + 0.5);
      double read_size = 0;
      std::size_t edges = 0;
      for (const OpId id : graph.file_order()) {
        cpu -= graph.MeasuredMicros(id, datasets::kDnnPartitioningCpuKind).value() / 1000;
        accelerator -= graph.MeasuredMicros(id, datasets::kDnnPartitioningAcceleratorKind).value() / 1000;
        size -= static_cast<double>(graph.op(id).persistent.count);
        edges += graph.inputs(id).size();
        for (const TensorId input : graph.inputs(id)) read_size += static_cast<double>(graph.tensor(input).size.count);
      }
      EXPECT_NEAR(cpu, 0, 1e-6) << file;
      EXPECT_NEAR(accelerator, 0, 1e-6) << file;
      EXPECT_EQ(size, 0) << file;
      EXPECT_EQ(edges, json.at("edges").size()) << file;
      EXPECT_EQ(read_size, edge_size) << file;
      const auto devices = json.at("maxCPUs").get<std::size_t>() + json.at("maxFPGAs").get<std::size_t>();
      EXPECT_EQ(imported.cluster->num_devices(), devices) << file;
      // Every op may run on some device of the file's own cluster.
      EXPECT_NO_THROW(MeasuredCosts(graph, *imported.cluster)) << file;
    }
  }
  EXPECT_EQ(files, 20U);
}

struct Sizes {
  const char* path;
  std::size_t nodes;
  std::size_t edges;
};

TEST(DnnPartitioningReferenceTest, SizesAreThoseOfTheReadme) {
  const std::string folder = ReferenceFolder("msr-fiddle+dnn-partitioning");
  if (folder.empty()) GTEST_SKIP() << "the reference data is not here";
  constexpr Sizes kSizes[] = {
      {"LayerGraphs/bert24_inference", 32, 55},          {"LayerGraphs/bert24_training", 64, 110},
      {"LayerGraphs/gnmt_inference", 96, 122},           {"LayerGraphs/inceptionv3_inference", 326, 363},
      {"LayerGraphs/inceptionv3_training", 652, 726},    {"LayerGraphs/resnet50_inference", 177, 193},
      {"LayerGraphs/resnet50_training", 354, 386},       {"OperatorGraphs/bert_l-3_inference", 235, 250},
      {"OperatorGraphs/bert_l-3_training", 600, 817},    {"OperatorGraphs/bert_l-12_inference", 783, 843},
      {"OperatorGraphs/bert_L-12_training", 2012, 2751}, {"OperatorGraphs/resnet50_inference", 604, 619},
      {"OperatorGraphs/resnet50_training", 1243, 1806},
  };
  for (const Sizes& sizes : kSizes) {
    const std::string file = folder + "/throughput-inputs/" + sizes.path + ".json";
    const Graph graph = datasets::ImportDnnPartitioning(ReadWholeFile(file), file).graph;
    EXPECT_EQ(graph.num_ops(), sizes.nodes) << file;
    std::size_t edges = 0;
    for (const OpId id : graph.file_order()) edges += graph.inputs(id).size();
    EXPECT_EQ(edges, sizes.edges) << file;
  }
}

// The exception in the README: costs are in seconds in the layer graphs for throughput, in ms elsewhere.
TEST(DnnPartitioningReferenceTest, OnlyLayerGraphsForThroughputHaveCostsInSeconds) {
  const std::string folder = ReferenceFolder("msr-fiddle+dnn-partitioning");
  if (folder.empty()) GTEST_SKIP() << "the reference data is not here";
  for (const char* const path : {"/throughput-inputs/LayerGraphs", "/throughput-inputs/OperatorGraphs",
                                 "/latency-inputs/LayerGraphs", "/latency-inputs/OperatorGraphs"}) {
    for (const auto& entry : std::filesystem::directory_iterator(folder + path)) {
      const std::string file = entry.path().string();
      const auto notes = datasets::ImportDnnPartitioning(ReadWholeFile(file), file).notes;
      const bool in_seconds = std::string(path) == "/throughput-inputs/LayerGraphs";
      EXPECT_EQ(notes.at(0).find("in seconds") != std::string::npos, in_seconds) << file;
    }
  }
}

}  // namespace dnn_partitioning_test
}  // namespace emplace::testing
