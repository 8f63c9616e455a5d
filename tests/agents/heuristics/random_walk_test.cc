#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
using ::testing::Each;

TEST(RandomWalkTest, EachEpisodeEvaluatesOnePlacementPerGroup) {
  // One for the start, then 3 episodes of 10 groups.
  SearchSpec spec = testing::MakeSearch(MakeChain(10, 1, 4), MakeCluster(2), "random_walk", {{"episodes", "3"}});
  EXPECT_EQ(RunSearch(spec).evaluations, 31U);
}

TEST(RandomWalkTest, APassOverAllGroupsIsAnEpisodeOfAUniformPolicy) {
  // 100 groups are asked for in two batches.
  SearchSpec spec = testing::MakeSearch(MakeChain(100, 1, 4), MakeCluster(2), "random_walk", {{"episodes", "3"}});
  spec.evaluations = 250;
  const SearchResult result = RunSearch(spec);
  ASSERT_EQ(result.episodes.size(), 2U);  // the third is cut short
  EXPECT_EQ(result.episodes[1].episode, 1U);
  EXPECT_EQ(result.episodes[1].evaluations, 201U);
  EXPECT_EQ(result.episodes[1].entropy, 1);
  EXPECT_LE(result.episodes[1].best_micros, result.episodes[1].final_micros);
  EXPECT_GE(result.episodes[0].best_micros, result.best_result.step_time_micros);
  EXPECT_FALSE(result.episodes[1].argmax);
  // Stopped within a pass, it goes on to the same.
  EXPECT_EQ(testing::StoppedAndResumed(spec, "walk_checkpoint", {60, 130}).episodes, result.episodes);
}

TEST(RandomWalkTest, StartsWithEverythingOnTheFirstAccelerator) {
  SearchSpec spec = testing::MakeSearch(MakeChain(10, 1, 4), MakeMixedCluster(2), "random_walk");
  spec.evaluations = 1;
  EXPECT_THAT(RunSearch(spec).best->devices(), Each(MakeId<DeviceId>(1)));
}

TEST(RandomWalkTest, FindsTheOptimumOfATinyGraph) {
  Rng rng(8);
  for (int i = 0; i < 5; ++i) {
    const Graph graph = testing::RandomDag(rng, {.num_ops = 5});
    SearchSpec spec = testing::MakeSearch(graph, MakeCluster(2), "random_walk", {{"episodes", "200"}});
    EXPECT_EQ(RunSearch(spec).best_result.step_time_micros, testing::FastestOfAll(graph, MakeCluster(2)));
  }
}

}  // namespace
}  // namespace emplace
