#include "agents/nn/p_gnn.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/graphs.h"
#include "tests/testing/networks.h"

namespace emplace {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatEq;

constexpr agents::GraphSageOptions kBase{.features = 8, .both_directions = false};

TEST(PGnnCodeTest, HasTheThesissNumberOfAnchorSets) {
  // n = 188: floor(ln 188) = 5 sizes of max(1, floor(0.2 * 5)) = 1 set; 500: 6 sizes of one set.
  Rng rng(1);
  for (const auto& [n, sets] : {std::pair<std::size_t, std::size_t>{188, 5}, {301, 5}, {500, 6}, {2, 0}}) {
    agents::ParameterSet parameters;
    const agents::PGnnCode encoder(parameters, kBase, {});
    EXPECT_EQ(encoder.Draw(testing::RandomTopology(rng, n), rng).num_sets, sets) << n;
  }
}

TEST(PGnnCodeTest, TheFurthestReachableAnchorCounts) {
  // A chain. Exponent 0 makes the first set hold all n = 8 nodes. Of the anchors after a node, the furthest within the
  // cutoff counts.
  agents::ParameterSet parameters;
  const agents::PGnnCode encoder(parameters, kBase, {.exponent = 0, .cutoff = 3});
  Rng rng(2);
  const agents::GraphSample sample = encoder.Draw(agents::Topology(testing::MakeChain(8, 1, 1)), rng);
  ASSERT_EQ(sample.anchors[0].size(), 1U);
  EXPECT_EQ(sample.anchors[0][0].node, 3U);
  EXPECT_FLOAT_EQ(sample.anchors[0][0].weight, 0.25F);  // 1 / (3 + 1)
  EXPECT_EQ(sample.anchors[6][0].node, 7U);
  EXPECT_TRUE(sample.anchors[7].empty());  // the last node has no anchor after it
}

TEST(PGnnCodeTest, PoolingAveragesOverlappingWindows) {
  // Eight rows, width 8 (3 devices): windows of 5 rows, 4 of them; the first row is in one, the fourth in all.
  const std::vector<float> shares = agents::PooledShares(8, 8);
  EXPECT_THAT(shares, ElementsAre(FloatEq(0.05F), FloatEq(0.1F), FloatEq(0.15F), FloatEq(0.2F), FloatEq(0.2F),
                                  FloatEq(0.15F), FloatEq(0.1F), FloatEq(0.05F)));
  // For width 20 (15 devices) the thesis's code fails; here one window covers all rows.
  EXPECT_THAT(agents::PooledShares(2, 20), ElementsAre(FloatEq(0.5F), FloatEq(0.5F)));
}

TEST(PGnnOriginalTest, TheNearestAnchorCountsInBothDirections) {
  agents::ParameterSet parameters;
  const agents::PGnnOriginal encoder(parameters, {.features = 8}, {.cutoff = 3});
  Rng rng(3);
  const std::size_t n = 16;
  const agents::GraphSample sample = encoder.Draw(agents::Topology(testing::MakeChain(n, 1, 1)), rng);
  EXPECT_EQ(sample.num_sets, 4U);  // floor(log2 16)
  // The first set holds 8 of the 16 nodes. A node in it is its own nearest anchor, at distance 0.
  std::size_t own = 0;
  for (std::size_t node = 0; node < n; ++node) {
    if (sample.anchors[node].empty()) continue;
    const agents::GraphSample::Anchor& anchor = sample.anchors[node][0];
    const auto distance = static_cast<float>(anchor.node > node ? anchor.node - node : node - anchor.node);
    EXPECT_FLOAT_EQ(anchor.weight, 1 / (distance + 1));
    own += anchor.node == node ? 1 : 0;
  }
  EXPECT_EQ(own, 8U);
}

TEST(PGnnOriginalTest, AnchorsAreDrawnForEveryEpisodeAndOfTheCodeOnce) {
  agents::ParameterSet parameters;
  EXPECT_TRUE(agents::PGnnOriginal(parameters, {.features = 8}, {}).redraws());
  EXPECT_FALSE(agents::PGnnCode(parameters, kBase, {}).redraws());
}

}  // namespace
}  // namespace emplace
