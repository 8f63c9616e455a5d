#include "agents/rl/planner/group_vectors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

namespace emplace {
namespace {

using ::testing::ElementsAre;

// 0 -> 1 -> 2, 0 -> 3; each is of kind 0, except node 3, which is of kind 2 and also holds an op of kind 0.
agents::NodeFeatures Nodes() {
  agents::NodeFeatures nodes;
  nodes.kinds = {0, 0, 0, 2};
  for (std::size_t node = 0; node < 4; ++node) {
    nodes.shapes.emplace_back().fill(-1);
    nodes.kind_counts.push_back({{0, 1}});
  }
  nodes.kind_counts[3] = {{0, 1}, {2, 1}};
  nodes.shapes[0][0] = 8;
  nodes.shapes[1][0] = 24;
  nodes.shapes[1][1] = 4;
  nodes.consumers = {{1, 3}, {2}, {}, {}};
  nodes.producers = {{}, {0}, {1}, {0}};
  return nodes;
}

std::vector<float> Part(const agents::Matrix& matrix, std::size_t row, std::size_t begin, std::size_t end) {
  return {matrix.row(row) + begin, matrix.row(row) + end};
}

TEST(GroupVectorsTest, AnOpsNumbersAreItsDimensionsAndNeighbours) {
  const agents::Matrix raw = agents::OpNumbers(Nodes(), true);
  ASSERT_EQ(raw.width(), 36U);
  EXPECT_THAT(Part(raw, 1, 0, 3), ElementsAre(24, 4, -1));
  // Breadth first: 0, 1, 3, 2.
  EXPECT_THAT(Part(raw, 0, 24, 36), ElementsAre(-1, -1, -1, -1, -1, -1, 1, 2, -1, -1, -1, -1));
  EXPECT_THAT(Part(raw, 2, 24, 30), ElementsAre(1, -1, -1, -1, -1, -1));
  const agents::Matrix scaled = agents::OpNumbers(Nodes(), false);
  EXPECT_NEAR(scaled.row(1)[0], std::log(25.0), 1e-6);
  EXPECT_EQ(scaled.row(1)[2], -1);
  EXPECT_EQ(scaled.row(0)[31], 0.5F);  // 2 of 4
}

TEST(GroupVectorsTest, AGroupSumsKindsAndShapesAndKnowsItsNeighbours) {
  const std::vector<std::uint32_t> group_of = {0, 0, 2, 2};
  const agents::Matrix vectors = agents::GroupVectors(Nodes(), group_of, 3, false);
  ASSERT_EQ(vectors.width(), agents::GroupVectorWidth(3));
  const std::size_t kinds = agents::NumKinds();
  EXPECT_EQ(vectors.row(0)[0], 1);  // two ops, both of kind 0
  EXPECT_THAT(Part(vectors, 2, 0, 3), ElementsAre(2.0F / 3, 0, 1.0F / 3));
  EXPECT_THAT(Part(vectors, 0, kinds, kinds + 3), ElementsAre(1, 4.0F / 32, 0));  // 8 + 24 and 4, by the largest
  EXPECT_THAT(Part(vectors, 0, kinds + 24, kinds + 27), ElementsAre(0, 0, 1));
  EXPECT_THAT(Part(vectors, 2, kinds + 24, kinds + 27), ElementsAre(1, 0, 0));
  for (const float value : vectors.values(1)) EXPECT_EQ(value, 0);  // an empty group
  const agents::Matrix raw = agents::GroupVectors(Nodes(), group_of, 3, true);
  EXPECT_EQ(raw.row(0)[0], 2);
  EXPECT_THAT(Part(raw, 2, 0, 3), ElementsAre(2, 0, 1));
  EXPECT_THAT(Part(raw, 0, kinds, kinds + 3), ElementsAre(32, 4, 0));
  EXPECT_THAT(Part(raw, 0, kinds + 24, kinds + 27), ElementsAre(0, 0, 1));
}

}  // namespace
}  // namespace emplace
