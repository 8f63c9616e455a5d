#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "datasets/importers/dnn_partitioning.h"
#include "datasets/importers/importers.h"
#include "sim/formats/graph_json.h"
#include "sim/placement.h"
#include "tests/datasets/importers/samples.h"
#include "tests/testing/graphs.h"
#include "tests/testing/reference.h"

namespace emplace::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

datasets::Imported Sample() { return datasets::ImportDnnPartitioning(kDnnPartitioningSample, "in.json"); }

std::string Refused(std::string_view from, std::string_view to) {
  const datasets::Imported imported = Sample();
  return Refusal([&] {
    datasets::ImportExpertPlacement(Edited(kExpertSample, from, to), "e.json", imported.graph, *imported.cluster);
  });
}

TEST(ExpertPlacementTest, TheListsGoToTheDevicesInTheirOrder) {
  const datasets::Imported imported = Sample();
  const auto device = [&](const Graph& graph, std::string_view name) {
    const Placement placement = datasets::ImportExpertPlacement(kExpertSample, "e.json", graph, *imported.cluster);
    return imported.cluster->device(placement[graph.FindOp(name).value()]).name;
  };
  EXPECT_EQ(device(imported.graph, "_a_b"), "cpu:0");
  EXPECT_EQ(device(imported.graph, "MatMul1"), "accelerator:1");
  EXPECT_EQ(device(imported.graph, "node7grad"), "accelerator:1");
  // The ids are stored in the graph itself, so it can be written and read in between.
  std::stringstream text;
  WriteGraph(text, imported.graph);
  EXPECT_EQ(device(ReadGraph(text, "g.json"), "node7grad"), "accelerator:1");
}

// node7grad (id 8) is in the colour class of MatMul1 (id 7).
TEST(ExpertPlacementTest, ANodeOnNoListGoesWithItsColourClass) {
  const datasets::Imported imported = Sample();
  const auto place = [&](const std::string& split) {
    return datasets::ImportExpertPlacement(split, "e.json", imported.graph, *imported.cluster);
  };
  EXPECT_EQ(place(Edited(kExpertSample, "[7, 8]", "[7]")), place(kExpertSample));
  EXPECT_EQ(place(Edited(kExpertSample, "[7, 8]", "[8]")), place(kExpertSample));
}

TEST(ExpertPlacementTest, WhatIsNoSplitOfTheGraphIsRefused) {
  EXPECT_EQ(Refused("[7, 8]", "[7, 6]"), "e.json: fpgas[1].nodes[1]: is the number 6 (the id of a node of this graph)");
  EXPECT_EQ(Refused("[7, 8]", "[7, 8, 7]"), "e.json: fpgas[1].nodes[2]: is the number 7 (each node once)");
  EXPECT_EQ(Refused("[9]", "[]"),
            "e.json: node 9 (\"_a_b\") is on no device (every node of the graph, or one of its colour class)");
  EXPECT_EQ(Refused("[7, 8]", "\"7\""), "e.json: fpgas[1].nodes: is the text \"7\" (a list of node ids)");
  EXPECT_EQ(Refused("\"fpgas\"", "\"gpus\""), "e.json: gpus: unknown key (fpgas, cpus, maxLoad); did you mean cpus?");
  EXPECT_EQ(Refused(", \"nodes\": [9]", ""), "e.json: cpus[0].nodes: is missing (a list of node ids)");
  EXPECT_EQ(Refused("[{\"load\": -1, \"nodes\": []}", "[{\"nodes\": []}, {\"load\": -1, \"nodes\": []}"),
            "e.json: fpgas[2]: has no device (the cluster has 2 for fpgas)");
  EXPECT_THAT(Refused("]}]}", ""), HasSubstr("e.json: line 1, column"));
}

TEST(ExpertPlacementTest, WhatCannotRunIsRefused) {
  const datasets::Imported imported = Sample();
  // _a_b has no time on an accelerator.
  EXPECT_THAT(Refusal([&] {
                datasets::ImportExpertPlacement(Edited(Edited(kExpertSample, "[9]", "[]"), "[7, 8]", "[7, 8, 9]"),
                                                "e.json", imported.graph, *imported.cluster);
              }),
              HasSubstr("e.json: devices[\"_a_b\"]"));
  // MatMul1 and node7grad are in one colour class.
  EXPECT_THAT(Refusal([&] {
                datasets::ImportExpertPlacement(Edited(Edited(kExpertSample, "[7, 8]", "[7]"), "[]", "[8]"), "e.json",
                                                imported.graph, *imported.cluster);
              }),
              HasSubstr("e.json: devices["));
}

TEST(ExpertPlacementTest, AGraphWithoutNodeIdsIsRefused) {
  const Graph graph = MakeChain(3, 1, 1);
  const Cluster cluster = TwoDevices();
  EXPECT_THAT(Refusal([&] { datasets::ImportExpertPlacement(kExpertSample, "e.json", graph, cluster); }),
              HasSubstr("its ops have no ids"));
}

class FindExpertFileTest : public ::testing::Test {
 protected:
  FindExpertFileTest()
      : root_(fs::path(::testing::TempDir()) /
              ("expert_" + std::string(::testing::UnitTest::GetInstance()->current_test_info()->name()))) {
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  ~FindExpertFileTest() override { fs::remove_all(root_); }

  std::string Touch(const std::string& path) {
    fs::create_directories((root_ / path).parent_path());
    std::ofstream(root_ / path) << "{}";
    return (root_ / path).string();
  }
  fs::path root_;
};

TEST_F(FindExpertFileTest, LooksTwoFoldersAboveThenInTheFolderThenBesideTheInput) {
  const std::string input = Touch("inputs/layers/net.json");
  EXPECT_EQ(datasets::FindExpertFile(input), "");
  const auto expect_found = [&](const std::string& path) {
    const std::string expert = Touch(path);
    EXPECT_TRUE(fs::equivalent(datasets::FindExpertFile(input), expert)) << path;
  };
  expect_found("inputs/layers/net_expert.json");
  expect_found("inputs/layers/human-experts/net_expert.json");
  expect_found("human-experts/net_expert.json");
}

TEST_F(FindExpertFileTest, TrainingTakesTheSplitForInferenceWhereItHasNone) {
  const std::string input = Touch("net_training.json");
  const std::string inference = Touch("human-experts/net_inference_expert.json");
  EXPECT_TRUE(fs::equivalent(datasets::FindExpertFile(input), inference));
  const std::string training = Touch("net_training_expert.json");
  EXPECT_TRUE(fs::equivalent(datasets::FindExpertFile(input), training));
}

TEST_F(FindExpertFileTest, CompressedInputsHaveTheSameStem) {
  Touch("net_expert.json");
  EXPECT_NE(datasets::FindExpertFile((root_ / "net.json.gz").string()), "");
  EXPECT_EQ(datasets::FindExpertFile((root_ / "other.json").string()), "");
  EXPECT_EQ(datasets::FindExpertFile("-"), "");
  EXPECT_EQ(datasets::FindExpertFile(""), "");
}

// Which expert fits which input. Two inputs are missing: that of gnmt_training_expert.json does not exist, and that of
// bert24_inference for latency has 5 accelerators, one fewer than the expert used.
TEST(ExpertReferenceTest, ExpertsFitTheGraphsOfTheirName) {
  const std::string folder = ReferenceFolder("msr-fiddle+dnn-partitioning");
  if (folder.empty()) GTEST_SKIP() << "the reference data is not here";
  const std::set<std::string> expected = {
      "latency-inputs/LayerGraphs/gnmt_inference",           "latency-inputs/LayerGraphs/inceptionv3_inference",
      "latency-inputs/LayerGraphs/resnet50_inference",       "throughput-inputs/LayerGraphs/bert24_inference",
      "throughput-inputs/LayerGraphs/bert24_training",       "throughput-inputs/LayerGraphs/gnmt_inference",
      "throughput-inputs/LayerGraphs/inceptionv3_inference", "throughput-inputs/LayerGraphs/inceptionv3_training",
      "throughput-inputs/LayerGraphs/resnet50_inference",    "throughput-inputs/LayerGraphs/resnet50_training"};
  std::set<std::string> fitting;
  std::set<std::string> refused;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    const std::string file = entry.path().string();
    if (!entry.is_regular_file() || file.find("-inputs/") == std::string::npos) continue;
    const std::string expert = datasets::FindExpertFile(file);
    if (expert.empty()) continue;
    const datasets::Imported imported = datasets::ImportDnnPartitioning(ReadWholeFile(file), file);
    const std::string path = fs::relative(entry.path(), folder).replace_extension().string();
    try {
      const Placement placement =
          datasets::ImportExpertPlacement(ReadWholeFile(expert), expert, imported.graph, *imported.cluster);
      CheckPlacement(placement, imported.graph, *imported.cluster, MeasuredCosts(imported.graph, *imported.cluster));
      // All six accelerators are used, and no CPU is.
      std::set<DeviceId> used(placement.devices().begin(), placement.devices().end());
      EXPECT_EQ(used.size(), 6U) << path;
      for (const DeviceId device : used) EXPECT_FALSE(imported.cluster->device(device).is_cpu) << path;
      fitting.insert(path);
    } catch (const InputError& error) {
      EXPECT_EQ(std::string(error.what()).find(expert), 0U);
      refused.insert(path);
    }
  }
  EXPECT_EQ(fitting, expected);
  EXPECT_EQ(refused, (std::set<std::string>{"latency-inputs/LayerGraphs/bert24_inference",
                                            "latency-inputs/OperatorGraphs/resnet50_inference",
                                            "throughput-inputs/OperatorGraphs/resnet50_inference",
                                            "throughput-inputs/OperatorGraphs/resnet50_training"}));
}

}  // namespace
}  // namespace emplace::testing
