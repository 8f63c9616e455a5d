#include "experiments/report/placement_picture.h"

#include <gmock/gmock.h>

#include "sim/base/check.h"
#include "tests/testing/errors.h"
#include "tests/testing/graphs.h"

namespace emplace::testing {
namespace placement_picture_test {

using ::testing::ElementsAre;

experiments::PlacementPicture Picture(const Graph& graph, const Cluster& cluster, const Placement& placement) {
  return experiments::MakePlacementPicture(graph, cluster, MeasuredCosts(graph, cluster), "fifo", placement);
}

Placement Spread(const Graph& graph) {
  Placement placement(graph.num_ops());
  for (std::size_t i = 0; i < graph.num_ops(); ++i) placement[MakeId<OpId>(i)] = MakeId<DeviceId>(i % 2);
  return placement;
}

TEST(PlacementPictureTest, DotsStartWhenTheSimulatorSaysAndLinesJoinDevices) {
  // a runs 0-4 on gpu:0, its 2000 bytes take 2 us, b runs 6-10 on gpu:1.
  const Graph graph = MakeChain(2, 4, 2000);
  const experiments::PlacementPicture picture = Picture(graph, TwoDevices(), Spread(graph));
  EXPECT_EQ(picture.step_time_micros, 10);
  ASSERT_EQ(picture.dots.size(), 2U);
  EXPECT_EQ(picture.dots[0].op, "op0");
  EXPECT_EQ(picture.dots[0].start_micros, 0);
  EXPECT_EQ(picture.dots[0].micros, 4);
  EXPECT_EQ(picture.dots[1].start_micros, 6);
  EXPECT_EQ(picture.dots[1].device, 1U);
  ASSERT_EQ(picture.lines.size(), 1U);
  EXPECT_EQ(picture.lines[0].from_micros, 4);
  EXPECT_EQ(picture.lines[0].to_micros, 6);
  EXPECT_EQ(picture.lines[0].bytes, 2000);
  // Without layers, the lanes are depths.
  EXPECT_THAT(picture.lanes, ElementsAre("depth 0", "depth 1"));
  EXPECT_EQ(picture.lines[0].to_lane, 1U);
}

TEST(PlacementPictureTest, LanesAreLayersInTheOrderInWhichTheyStart) {
  // b's weights are op 0 and take no time; they do not make b's layer the first.
  OpSpec weights = MakeOp("0", 0);
  weights.layer = "ant";
  OpSpec a = MakeOp("a", 1);
  OpSpec b = MakeOp("b", 1, {"a", "0"});
  OpSpec c = MakeOp("c", 1, {"b"});
  OpSpec d = MakeOp("d", 1, {"c"});
  a.layer = "zebra";
  b.layer = "ant";
  c.layer = "zebra";
  const Graph graph = Build({weights, a, b, c, d});
  const experiments::PlacementPicture picture = Picture(graph, TwoDevices(), Placement(5));
  EXPECT_THAT(picture.lanes, ElementsAre("zebra", "ant", "(no layer)"));
  std::vector<std::size_t> lanes;
  for (const auto& dot : picture.dots) lanes.push_back(dot.lane);
  EXPECT_THAT(lanes, ElementsAre(0, 1, 0, 2));
  EXPECT_TRUE(picture.lines.empty());
}

TEST(PlacementPictureTest, OpsOfNoTimeAreDrawnOnlyWhereTheySend) {
  const Graph graph =
      Build({MakeOp("here", 0, {}, {8}), MakeOp("sends", 0, {}, {8}), MakeOp("work", 5, {"here", "sends"})});
  Placement placement(3);
  placement[*graph.FindOp("sends")] = MakeId<DeviceId>(1);
  const experiments::PlacementPicture picture = Picture(graph, TwoDevices(), placement);
  std::vector<std::string> ops;
  for (const auto& dot : picture.dots) ops.push_back(dot.op);
  EXPECT_THAT(ops, ::testing::UnorderedElementsAre("sends", "work"));
  EXPECT_EQ(picture.ops_left_out, 1U);
}

TEST(PlacementPictureTest, OfManyThingsTheHeaviestAreDrawn) {
  // 5000 ops one after the other, alternating between two devices: 4999 transfers, of sizes 0 to 4998.
  std::vector<OpSpec> specs;
  constexpr int kOps = 5000;
  for (int i = 0; i < kOps; ++i) {
    std::vector<std::string> inputs;
    if (i > 0) inputs.push_back("op" + std::to_string(i - 1));
    specs.push_back(MakeOp("op" + std::to_string(i), 1 + i, inputs, {i}));
  }
  const Graph graph = Build(specs);
  const experiments::PlacementPicture picture = Picture(graph, TwoDevices(), Spread(graph));
  EXPECT_EQ(picture.dots.size(), experiments::PlacementPicture::kMostDots);
  EXPECT_EQ(picture.ops_left_out, 1000U);
  EXPECT_EQ(picture.dots[0].op, "op1000");
  EXPECT_EQ(picture.lines.size(), experiments::PlacementPicture::kMostLines);
  EXPECT_EQ(picture.lines_left_out, 4699U);
  EXPECT_EQ(picture.lines[0].bytes, 4998);
}

TEST(PlacementPictureTest, WhatCannotRunIsRefused) {
  const Graph graph = MakeChain(2, 4, 2000);
  const Cluster apart = MakeCluster(2, Link{});
  EXPECT_NE(ErrorOf([&] { Picture(graph, apart, Spread(graph)); }), "(no error)");
  EXPECT_NE(ErrorOf([&] {
              experiments::MakePlacementPicture(graph, TwoDevices(), MeasuredCosts(graph, TwoDevices()), "steam",
                                                Placement(2));
            }),
            "(no error)");
}

}  // namespace placement_picture_test
}  // namespace emplace::testing
