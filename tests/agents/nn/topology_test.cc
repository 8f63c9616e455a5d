#include "agents/nn/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/testing/graphs.h"
#include "tests/testing/networks.h"

namespace emplace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(TopologyTest, ADiamondHasThreeLevelsEachWay) {
  const agents::Topology diamond(testing::MakeDiamond(1, 1));  // a -> b, c -> d
  EXPECT_THAT(diamond.predecessors()[3], ElementsAre(1, 2));
  EXPECT_THAT(diamond.successors()[0], ElementsAre(1, 2));
  EXPECT_THAT(diamond.forward().order, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(diamond.forward().begin, ElementsAre(0, 1, 3, 4));
  EXPECT_THAT(diamond.backward().order, ElementsAre(3, 1, 2, 0));
  EXPECT_THAT(diamond.backward().position, ElementsAre(3, 1, 2, 0));
}

TEST(TopologyTest, RelationsGoByReachability) {
  const agents::Topology diamond(testing::MakeDiamond(1, 1));
  EXPECT_THAT(diamond.related(3, agents::Relation::kParent), ElementsAre(0, 1, 2));  // ancestors, not only predecessors
  EXPECT_THAT(diamond.related(0, agents::Relation::kChild), ElementsAre(1, 2, 3));
  EXPECT_THAT(diamond.related(1, agents::Relation::kParallel), ElementsAre(2));
  EXPECT_THAT(diamond.related(0, agents::Relation::kParallel), IsEmpty());
  EXPECT_EQ(diamond.relation(1, 1), agents::Relation::kSelf);
}

TEST(TopologyTest, ParentsChildrenParallelAndSelfArePartsOfTheWhole) {
  Rng rng(17);
  for (int i = 0; i < 30; ++i) {
    const agents::Topology topology = testing::RandomTopology(rng, 2 + rng.Below(40));
    const std::size_t n = topology.num_nodes();
    const std::vector<std::uint8_t> distances = topology.Distances(254, /*directed=*/true);
    for (std::size_t node = 0; node < n; ++node) {
      std::vector<int> times(n);
      ++times[node];
      for (const agents::Relation relation :
           {agents::Relation::kParent, agents::Relation::kChild, agents::Relation::kParallel}) {
        for (const std::uint32_t other : topology.related(node, relation)) ++times[other];
      }
      EXPECT_EQ(times, std::vector<int>(n, 1));
      for (std::size_t other = 0; other < n; ++other) {
        // An independent way to the same result: breadth-first search.
        const bool reaches = distances[node * n + other] != agents::Topology::kFar;
        const bool reached = distances[other * n + node] != agents::Topology::kFar;
        const agents::Relation expected = other == node ? agents::Relation::kSelf
                                          : reached     ? agents::Relation::kParent
                                          : reaches     ? agents::Relation::kChild
                                                        : agents::Relation::kParallel;
        EXPECT_EQ(topology.relation(node, other), expected);
      }
    }
  }
}

TEST(TopologyTest, ALevelHearsOnlyFromLevelsBefore) {
  Rng rng(18);
  for (int i = 0; i < 30; ++i) {
    const agents::Topology topology = testing::RandomTopology(rng, 30);
    const auto level_of = [](const agents::Topology::Levels& levels, std::uint32_t node) {
      std::size_t level = 0;
      while (levels.position[node] >= levels.begin[level + 1]) ++level;
      return level;
    };
    for (std::uint32_t node = 0; node < topology.num_nodes(); ++node) {
      for (const std::uint32_t other : topology.predecessors()[node]) {
        EXPECT_LT(level_of(topology.forward(), other), level_of(topology.forward(), node));
        EXPECT_GT(level_of(topology.backward(), other), level_of(topology.backward(), node));
      }
    }
  }
}

TEST(TopologyTest, DistancesCountEdgesUpToTheCutoff) {
  const agents::Topology chain(testing::MakeChain(4, 1, 1));
  const std::vector<std::uint8_t> directed = chain.Distances(2, true);
  EXPECT_EQ(directed[0 * 4 + 2], 2);
  EXPECT_EQ(directed[0 * 4 + 3], agents::Topology::kFar);  // beyond the cutoff
  EXPECT_EQ(directed[2 * 4 + 0], agents::Topology::kFar);  // against the edges
  const std::vector<std::uint8_t> both = chain.Distances(2, false);
  EXPECT_EQ(both[2 * 4 + 0], 2);
  EXPECT_EQ(both[1 * 4 + 1], 0);
}

}  // namespace
}  // namespace emplace
