#include "agents/heuristics/baselines.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/base/check.h"
#include "tests/testing/graphs.h"
#include "tests/testing/searches.h"

namespace emplace {
namespace {

using ::emplace::testing::Build;
using ::emplace::testing::MakeChain;
using ::emplace::testing::MakeCluster;
using ::emplace::testing::MakeMixedCluster;
using ::emplace::testing::MakeOp;
using ::emplace::testing::PlacedBy;
using ::testing::Each;
using ::testing::ElementsAre;

OpSpec OnKinds(const char* name, std::vector<std::pair<std::string, double>> times) {
  OpSpec spec = MakeOp(name, 0);
  spec.time_micros = std::nullopt;
  spec.kind_times = std::move(times);
  return spec;
}

TEST(SingleDeviceTest, EverythingIsOnTheFirstOfEqualAccelerators) {
  EXPECT_THAT(PlacedBy("single_device", MakeChain(4, 1, 4), MakeMixedCluster(3)), Each(1));
}

TEST(SingleDeviceTest, OpsThatMayNotGoThereGoToTheirFastestDevice) {
  const Graph graph = Build({OnKinds("a", {{"test-cpu", 1}}), OnKinds("b", {{"test-cpu", 1}, {"test-gpu", 9}})});
  EXPECT_THAT(PlacedBy("single_device", graph, MakeMixedCluster(1)), ElementsAre(0, 1));
}

TEST(SingleDeviceTest, TheDeviceCanBeNamed) {
  EXPECT_THAT(PlacedBy("single_device", MakeChain(2, 1, 4), MakeMixedCluster(3), {{"device", "gpu:2"}}), Each(3));
  EXPECT_THROW(PlacedBy("single_device", MakeChain(2, 1, 4), MakeMixedCluster(3), {{"device", "tpu"}}), InputError);
}

TEST(CpuOnlyTest, EverythingIsOnTheCpu) {
  EXPECT_THAT(PlacedBy("cpu_only", MakeChain(4, 1, 4), MakeMixedCluster(3)), Each(0));
}

TEST(CpuOnlyTest, AClusterWithoutACpuIsRefused) {
  EXPECT_THROW(PlacedBy("cpu_only", MakeChain(2, 1, 4), MakeCluster(2)), InputError);
}

TEST(RoundRobinTest, GroupsTakeTurnsOnTheAccelerators) {
  EXPECT_THAT(PlacedBy("round_robin", MakeChain(5, 1, 4), MakeMixedCluster(2)), ElementsAre(1, 2, 1, 2, 1));
}

TEST(BlocksTest, BlocksTakeEqualTime) {
  // 6, 1, 1, 2, 2 us: half of 12 us is the first op, the rest is the other half.
  const Graph graph = Build(
      {MakeOp("a", 6), MakeOp("b", 1, {"a"}), MakeOp("c", 1, {"b"}), MakeOp("d", 2, {"c"}), MakeOp("e", 2, {"d"})});
  EXPECT_THAT(PlacedBy("blocks", graph, MakeCluster(2)), ElementsAre(0, 1, 1, 1, 1));
}

TEST(BlocksTest, OpsOfNoTimeAtAllAreOnOneDevice) {
  EXPECT_THAT(PlacedBy("blocks", MakeChain(3, 0, 4), MakeCluster(2)), Each(0));
}

OpSpec OfLayer(const char* name, const char* layer, std::vector<std::string> inputs = {}, const char* kind = "matmul") {
  OpSpec spec = MakeOp(name, 1, std::move(inputs));
  spec.layer = layer;
  spec.kind = kind;
  return spec;
}

TEST(ExpertTest, RecurrentLayersAreSpreadOverTheAccelerators) {
  // Two accelerators, three layers: layer 2 is on the first accelerator again. The embedding is with layer 0, the
  // attention and the loss with the last layer (2). An op without a layer is with its consumer.
  const Graph graph =
      Build({OfLayer("a_input", "", {}, "input"), OfLayer("b_table", "embedding", {"a_input"}),
             OfLayer("c", "encoder/lstm0", {"b_table"}), OfLayer("d", "encoder/lstm1", {"c"}),
             OfLayer("e", "decoder/rnn2", {"d"}), OfLayer("f", "attention", {"e"}), OfLayer("g", "loss", {"f"})});
  EXPECT_THAT(PlacedBy("expert", graph, MakeMixedCluster(2)), ElementsAre(1, 1, 1, 2, 1, 1, 1));
}

TEST(ExpertTest, ConvolutionalNetworksStayOnOneAccelerator) {
  const Graph graph =
      Build({OfLayer("a", "block1", {}, "conv2d"), OfLayer("b", "block2", {"a"}), OfLayer("c", "block3", {"b"})});
  EXPECT_THAT(PlacedBy("expert", graph, MakeMixedCluster(2)), Each(1));
}

TEST(ExpertTest, ConvolutionsOverAudioAreCutIntoBlocksOfLayers) {
  // Audio has one row, [N, C, 1, T]; an image has more.
  const auto over = [](std::int64_t rows) {
    OpSpec a = OfLayer("a", "block1", {}, "input");
    a.outputs = {{.size = std::nullopt, .dtype = DType::kF32, .shape = {1, 2, rows, 8}}};
    return Build({a, OfLayer("b", "block1", {"a"}, "conv2d"), OfLayer("c", "block2", {"b"})});
  };
  EXPECT_THAT(PlacedBy("expert", over(1), MakeCluster(2)), ElementsAre(0, 0, 1));
  EXPECT_THAT(PlacedBy("expert", over(8), MakeCluster(2)), Each(0));
}

TEST(ExpertTest, OtherLayeredModelsAreCutIntoBlocksOfLayers) {
  const Graph graph = Build({OfLayer("a", "block1"), OfLayer("b", "block1", {"a"}), OfLayer("c", "block2", {"b"}),
                             OfLayer("d", "block3", {"c"}), OfLayer("e", "block4", {"d"})});
  EXPECT_THAT(PlacedBy("expert", graph, MakeCluster(2)), ElementsAre(0, 0, 0, 1, 1));
}

TEST(ExpertTest, GraphsWithoutLayersAreCutIntoBlocksOfEqualTime) {
  EXPECT_THAT(PlacedBy("expert", MakeChain(4, 1, 4), MakeCluster(2)), ElementsAre(0, 0, 1, 1));
}

}  // namespace
}  // namespace emplace
