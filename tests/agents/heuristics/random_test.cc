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
  SearchSpec spec = testing::MakeSearch(graph, MakeCluster(3), "random");
  spec.evaluations = 10;
  const double few = RunSearch(spec).best_result.step_time_micros;
  spec.evaluations = 500;
  EXPECT_LE(RunSearch(spec).best_result.step_time_micros, few);
}

}  // namespace
}  // namespace emplace
