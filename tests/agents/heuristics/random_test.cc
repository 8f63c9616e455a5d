#include "agents/heuristics/random.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "sim/base/check.h"
#include "tests/testing/graphs.h"
#include "tests/testing/searches.h"

namespace emplace {
namespace {

using ::emplace::testing::MakeChain;
using ::emplace::testing::MakeCluster;
using ::emplace::testing::MakeMixedCluster;
using ::emplace::testing::PlacedBy;
using ::testing::Each;

TEST(RandomTest, DrawsFromAcceleratorsAndFromCpusIfAsked) {
  const Graph graph = MakeChain(200, 1, 4);
  const auto without = PlacedBy("random", graph, MakeMixedCluster(2));
  EXPECT_EQ(std::count(without.begin(), without.end(), 0U), 0);
  // 200 draws of 3 devices: about 67 each; 30 is 5 standard deviations away.
  const auto with = PlacedBy("random", graph, MakeMixedCluster(2), {{"use_cpus", "true"}});
  for (const std::size_t device : {0U, 1U, 2U}) EXPECT_GT(std::count(with.begin(), with.end(), device), 30);
}

TEST(RandomTest, MoreDrawsNeverGiveAWorseBest) {
  Rng rng(7);
  const Graph graph = testing::RandomDag(rng, {.num_ops = 40});
  agents::SearchSpec spec = testing::MakeSearch(graph, MakeCluster(3), "random");
  spec.evaluations = 10;
  const double few = agents::RunSearch(spec).best_result.step_time_micros;
  spec.evaluations = 500;
  EXPECT_LE(agents::RunSearch(spec).best_result.step_time_micros, few);
}

TEST(RandomWalkTest, EachEpisodeEvaluatesOnePlacementPerGroup) {
  // One evaluation of the start, then 3 episodes of 10 groups.
  agents::SearchSpec spec =
      testing::MakeSearch(MakeChain(10, 1, 4), MakeCluster(2), "random_walk", {{"episodes", "3"}});
  EXPECT_EQ(agents::RunSearch(spec).evaluations, 31U);
}

TEST(RandomWalkTest, APassOverAllGroupsIsAnEpisodeOfAUniformPolicy) {
  // The 100 groups of an episode are proposed in two batches.
  agents::SearchSpec spec =
      testing::MakeSearch(MakeChain(100, 1, 4), MakeCluster(2), "random_walk", {{"episodes", "3"}});
  spec.evaluations = 250;
  const agents::SearchResult result = agents::RunSearch(spec);
  ASSERT_EQ(result.episodes.size(), 2U);  // the third is cut short
  EXPECT_EQ(result.episodes[1].episode, 1U);
  EXPECT_EQ(result.episodes[1].evaluations, 201U);
  EXPECT_EQ(result.episodes[1].entropy, 1);
  EXPECT_LE(result.episodes[1].best_micros, result.episodes[1].final_micros);
  EXPECT_GE(result.episodes[0].best_micros, result.best_result.step_time_micros);
  EXPECT_FALSE(result.episodes[1].argmax);
  // A search stopped within a pass resumes to the same result.
  EXPECT_EQ(testing::StoppedAndResumed(spec, "walk_checkpoint", {60, 130}).episodes, result.episodes);
}

TEST(RandomWalkTest, StartsWithEverythingOnTheFirstAccelerator) {
  agents::SearchSpec spec = testing::MakeSearch(MakeChain(10, 1, 4), MakeMixedCluster(2), "random_walk");
  spec.evaluations = 1;
  EXPECT_THAT(agents::RunSearch(spec).best->devices(), Each(MakeId<DeviceId>(1)));
}

TEST(RandomWalkTest, FindsTheOptimumOfATinyGraph) {
  Rng rng(8);
  for (int i = 0; i < 5; ++i) {
    const Graph graph = testing::RandomDag(rng, {.num_ops = 5});
    agents::SearchSpec spec = testing::MakeSearch(graph, MakeCluster(2), "random_walk", {{"episodes", "200"}});
    EXPECT_EQ(agents::RunSearch(spec).best_result.step_time_micros, testing::FastestOfAll(graph, MakeCluster(2)));
  }
}

}  // namespace
}  // namespace emplace
