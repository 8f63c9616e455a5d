#include "datasets/importers/pipedream.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "datasets/importers/importers.h"
#include "sim/formats/graph_json.h"
#include "sim/simulator.h"
#include "tests/datasets/importers/samples.h"
#include "tests/testing/graphs.h"
#include "tests/testing/reference.h"

namespace emplace::testing {
namespace pipedream_test {

using ::testing::ElementsAre;

Graph Sample() { return datasets::ImportPipeDream(kPipeDreamSample, "graph.txt").graph; }

double GpuMicros(const Graph& graph, std::string_view name) {
  return graph.MeasuredMicros(graph.FindOp(name).value(), datasets::kPipeDreamGpuKind).value();
}

std::string Refused(std::string_view from, std::string_view to) {
  return Refusal([&] { datasets::ImportPipeDream(Edited(kPipeDreamSample, from, to), "graph.txt"); });
}

TEST(PipeDreamTest, EachNodeIsAForwardAndABackwardOp) {
  const Graph graph = Sample();
  std::vector<std::string> names;
  for (const OpId id : graph.file_order()) names.emplace_back(graph.op(id).name);
  EXPECT_THAT(names,
              ElementsAre("node1/forward", "node1/backward", "node2/forward", "node2/backward", "node3/forward",
                          "node3/backward", "node4/forward", "node4/backward", "node10/forward", "node10/backward"));
  const Op& forward = FindOp(graph, "node2/forward");
  const Op& backward = FindOp(graph, "node2/backward");
  EXPECT_EQ(forward.pass, Pass::kForward);
  EXPECT_EQ(backward.pass, Pass::kBackward);
  EXPECT_EQ(forward.kind, "conv2d");
  EXPECT_EQ(backward.kind, "conv2d_backward");
  EXPECT_EQ(forward.layer, "node2");
  EXPECT_EQ(backward.layer, "node2");
  EXPECT_EQ(forward.attrs, R"json({"description":"Conv2d(3, 8, kernel_size=(3, 3), bias=False)"})json");
  EXPECT_EQ(FindOp(graph, "node4/forward").kind, "getitem");
  EXPECT_EQ(FindOp(graph, "node1/forward").kind, "input");
}

TEST(PipeDreamTest, TimesAreMillisecondsOfAGpuThatTheFileDoesNotName) {
  const Graph graph = Sample();
  EXPECT_EQ(GpuMicros(graph, "node3/forward"), 1001);  // exact, although 1.001 * 1000 is 1000.9999999999999
  EXPECT_EQ(GpuMicros(graph, "node3/backward"), 4500);
  EXPECT_FALSE(graph.MeasuredMicros(graph.FindOp("node3/forward").value(), "xeon-e5-2686v4"));
}

TEST(PipeDreamTest, LoadingTheDataTakesNoTime) {
  const datasets::Imported imported = datasets::ImportPipeDream(kPipeDreamSample, "graph.txt");
  EXPECT_EQ(GpuMicros(imported.graph, "node1/forward"), 0);
  EXPECT_THAT(imported.notes,
              ElementsAre("node1 (Input0): its forward time, 635.902 ms, is loading the data and left out",
                          "stage_id: left out (1 nodes have one)",
                          "the file does not name its GPU: times are those of a device kind \"pipedream-gpu\""));
}

TEST(PipeDreamTest, ParametersStayAndTheBackwardOpStaysWithThem) {
  const Graph graph = Sample();
  EXPECT_EQ(FindOp(graph, "node2/forward").persistent.count, 800);
  EXPECT_EQ(FindOp(graph, "node2/backward").persistent.count, 0);
  for (const OpId id : graph.file_order()) {
    const Op& op = graph.op(id);
    if (op.pass == Pass::kForward) continue;
    EXPECT_EQ(graph.op(op.colocate_with.value()).name, std::string(op.layer) + "/forward");
  }
}

// node3 has a list of 600 + 20 bytes.
TEST(PipeDreamTest, ForwardOpsReadActivationsAListAsItsSum) {
  const Graph graph = Sample();
  EXPECT_THAT(Inputs(graph, "node2/forward"), ElementsAre("node1/forward:0=1000"));
  EXPECT_THAT(Inputs(graph, "node4/forward"), ElementsAre("node3/forward:0=620"));
  EXPECT_THAT(Inputs(graph, "node10/forward"), ElementsAre("node2/forward:0=4000", "node4/forward:0=20"));
}

// Backward edges run against the forward ones, each the size of the activation that the forward one carries.
TEST(PipeDreamTest, BackwardOpsReadTheirActivationAndTheirConsumersGradients) {
  const Graph graph = Sample();
  EXPECT_THAT(Inputs(graph, "node10/backward"), ElementsAre("node10/forward:0=4000"));
  EXPECT_THAT(Inputs(graph, "node4/backward"), ElementsAre("node4/forward:0=20", "node10/backward:1=20"));
  EXPECT_THAT(Inputs(graph, "node3/backward"), ElementsAre("node3/forward:0=620", "node4/backward:0=620"));
  EXPECT_THAT(Inputs(graph, "node2/backward"),
              ElementsAre("node2/forward:0=4000", "node3/backward:0=4000", "node10/backward:0=4000"));
  EXPECT_THAT(Inputs(graph, "node1/backward"), ElementsAre("node1/forward:0=1000", "node2/backward:0=1000"));
}

TEST(PipeDreamTest, TheOrderOfLinesAndRepeatedEdgesChangeNothing) {
  std::vector<std::string> lines;
  std::istringstream in(kPipeDreamSample);
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  lines.push_back("\tnode1 -- node2");
  std::reverse(lines.begin(), lines.end());
  std::string reversed;
  for (const std::string& line : lines) reversed += line + "\r\n\n";
  std::ostringstream expected;
  WriteGraph(expected, Sample());
  std::ostringstream actual;
  WriteGraph(actual, datasets::ImportPipeDream(reversed, "graph.txt").graph);
  EXPECT_EQ(actual.str(), expected.str());
}

TEST(PipeDreamTest, FaultsAreNamedByLine) {
  EXPECT_EQ(Refused("\tnode1 -- node2", "\tnode1 -- node5"),
            "graph.txt: line 3: \"node5\" is unknown (a node of this file)");
  EXPECT_EQ(Refused("\tnode1 -- node2", "\tnode1"), "graph.txt: line 3: \"node1\" is not an edge (NODE -- NODE)");
  EXPECT_EQ(Refused("\tnode1 -- node2", "noise"),
            "graph.txt: line 3: \"noise\" is not a node (NAME -- DESCRIPTION -- MEASUREMENTS [-- stage_id=K]), nor an "
            "edge, which starts with a tab");
  EXPECT_EQ(Refused("\tnode1 -- node2", "\tnode:1 -- node2"),
            "graph.txt: line 3: \"node:1\" is not a node (a word such as node4)");
  EXPECT_EQ(Refused("\nnode2 -- ", "\nnode1 -- "), "graph.txt: line 4: node1 occurs twice (also on line 2)");
  EXPECT_EQ(Refused("Input0", "Input\xff"), "graph.txt: line 2: is not valid UTF-8");
  EXPECT_EQ(Refused("stage_id=1", "stage=1").substr(0, 19), "graph.txt: line 9: ");
  EXPECT_EQ(Refusal([] { datasets::ImportPipeDream("\n", "graph.txt"); }),
            "graph.txt: holds no node (NAME -- DESCRIPTION -- MEASUREMENTS)");
}

TEST(PipeDreamTest, FaultsInMeasurementsAreNamed) {
  EXPECT_EQ(Refused("forward_compute_time=1.001, ", ""),
            "graph.txt: line 1: forward_compute_time: is missing (a number)");
  EXPECT_EQ(Refused("backward_compute_time=4.5, ", ""),
            "graph.txt: line 1: backward_compute_time: is missing (a number)");
  EXPECT_EQ(Refused("activation_size=[600.0; 20.0], ", ""),
            "graph.txt: line 1: activation_size: is missing (a number)");
  EXPECT_EQ(Refused(", parameter_size=300.000", ""), "graph.txt: line 1: parameter_size: is missing (a number)");
  EXPECT_EQ(Refused("parameter_size=300", "parameter_size=1, parameter_size=300"),
            "graph.txt: line 1: parameter_size: occurs twice (once)");
  EXPECT_EQ(Refused("parameter_size=300.000", "weights=3"),
            "graph.txt: line 1: \"weights=3\" is not a measurement (KEY=NUMBER, with the keys forward_compute_time, "
            "backward_compute_time, activation_size, parameter_size)");
  for (const char* const value : {"", "-1", "2000000000", "nan", "inf", "1x", "0x10", "1e400", "+1"}) {
    EXPECT_EQ(Refused("=1.001", std::string("=") + value), "graph.txt: line 1: forward_compute_time: \"" +
                                                               std::string(value) +
                                                               "\" is out of range (a number from 0 to 1e+09)");
  }
  EXPECT_EQ(Refused("[600.0; 20.0]", "[600.0; ]"),
            "graph.txt: line 1: activation_size: \"\" is out of range (a number from 0 to 1e+18)");
  EXPECT_EQ(Refused("[600.0; 20.0]", "[600.0"),
            "graph.txt: line 1: activation_size: \"[600.0\" is not a list ([a; b])");
  EXPECT_EQ(Refused("[600.0; 20.0]", "[6e17; 6e17]"),
            "graph.txt: line 1: activation_size: the sum is out of range (0 to 1e+18)");
}

TEST(PipeDreamTest, ACycleIsNamed) {
  EXPECT_EQ(Refused("\tnode2 -- node10", "\tnode10 -- node2"),
            "graph.txt: ops[2]: the graph has a cycle: node2/forward -> node3/forward -> node4/forward -> "
            "node10/forward -> node2/forward");
}

TEST(PipeDreamTest, SizesThatOverflowAreRefused) {
  // Two forward ops and three gradients of 1e18 bytes; 2^62 is 4.6e18.
  const std::string wide = Edited(kPipeDreamSample, "activation_size=1000.0", "activation_size=1e18");
  EXPECT_THAT(Refusal([&] { datasets::ImportPipeDream(Edited(wide, "size=4000.000", "size=1e18"), "graph.txt"); }),
              ::testing::HasSubstr("the sizes of the graph add up to more than 2^62 bytes"));
}

// The profiles in the README's table: nodes, edges, forward and backward ms, parameter MB.
struct Profile {
  const char* path;
  std::size_t nodes;
  std::size_t edges;
  double forward_millis;
  double backward_millis;
  double parameter_megabytes;
  double loading_millis;  // the part of that forward time that is the Input node's
};
constexpr Profile kProfiles[] = {
    {"image_classification/profiles/nasnetalarge", 1251, 1468, 416.1, 249.2, 369.0, 7.046},
    {"image_classification/profiles/resnet101", 347, 380, 207.7, 213.8, 178.2, 10.417},
    {"image_classification/profiles/inception_v3", 326, 362, 311.0, 399.8, 108.6, 21.700},
    {"image_classification/profiles/resnet50", 177, 193, 201.5, 260.9, 102.2, 18.962},
    {"image_classification/profiles/resnext50", 177, 193, 239.0, 369.0, 100.1, 17.158},
    {"translation/profiles/gnmt", 48, 58, 33.5, 55.9, 775.1, 0},
    {"image_classification/profiles/resnet18", 71, 79, 581.1, 152.3, 46.8, 473.625},
    {"image_classification/profiles/vgg16", 41, 41, 251.9, 438.6, 553.4, 17.972},
    {"image_classification/profiles/alexnet", 23, 23, 680.7, 40.5, 244.4, 635.902},
};

std::string ProfileFolder() { return ReferenceFolder("msr-fiddle+pipedream/profiler"); }

TEST(PipeDreamReferenceTest, TotalsAreThoseOfTheReadme) {
  if (ProfileFolder().empty()) GTEST_SKIP() << "the reference data is not here";
  for (const Profile& profile : kProfiles) {
    const std::string file = ProfileFolder() + "/" + profile.path + "/graph.txt";
    const Graph graph = datasets::ImportPipeDream(ReadWholeFile(file), file).graph;
    EXPECT_EQ(graph.num_ops(), 2 * profile.nodes) << file;
    double forward = 0;
    double backward = 0;
    double parameters = 0;
    std::size_t edges = 0;
    for (const OpId id : graph.file_order()) {
      const Op& op = graph.op(id);
      (op.pass == Pass::kForward ? forward : backward) +=
          graph.MeasuredMicros(id, datasets::kPipeDreamGpuKind).value() / 1000;
      parameters += static_cast<double>(op.persistent.count) / 1e6;
      std::vector<OpId> producers;
      for (const TensorId input : graph.inputs(id)) producers.push_back(graph.tensor(input).producer);
      std::sort(producers.begin(), producers.end());
      edges += static_cast<std::size_t>(std::unique(producers.begin(), producers.end()) - producers.begin());
    }
    // Forward edges, as many backward edges, and each node's own activation.
    EXPECT_EQ(edges, 2 * profile.edges + profile.nodes) << file;
    EXPECT_NEAR(forward + profile.loading_millis, profile.forward_millis, 0.051) << file;
    EXPECT_NEAR(backward, profile.backward_millis, 0.051) << file;
    EXPECT_NEAR(parameters, profile.parameter_megabytes, 0.051) << file;
  }
}

TEST(PipeDreamReferenceTest, EveryFileIsInTheTable) {
  if (ProfileFolder().empty()) GTEST_SKIP() << "the reference data is not here";
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(ProfileFolder())) {
    if (entry.is_regular_file() && entry.path().extension() == ".txt") ++files;
  }
  EXPECT_EQ(files, std::size(kProfiles));
}

// One device runs the ops one after the other, so the step takes the sum of all times.
TEST(PipeDreamReferenceTest, AlexnetOnOneGpuTakesAllItsTimes) {
  if (ProfileFolder().empty()) GTEST_SKIP() << "the reference data is not here";
  const std::string file = ProfileFolder() + "/image_classification/profiles/alexnet/graph.txt";
  const Graph graph = datasets::ImportPipeDream(ReadWholeFile(file), file).graph;
  Device gpu;
  gpu.name = "gpu:0";
  gpu.kind = datasets::kPipeDreamGpuKind;
  const Cluster cluster = Cluster::Uniform("one", {gpu}, {});
  const Simulator simulator(graph, cluster, MeasuredCosts(graph, cluster));
  const double step = simulator.Run(Placement(graph.num_ops())).step_time_micros;
  EXPECT_NEAR(step, (680.7 - 635.902 + 40.5) * 1000, 100);
}

}  // namespace pipedream_test
}  // namespace emplace::testing
