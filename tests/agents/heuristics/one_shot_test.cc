#include "agents/heuristics/one_shot.h"

#include <gtest/gtest.h>

#include <sstream>

#include "sim/check.h"
#include "sim/grouping.h"
#include "sim/simulator.h"
#include "tests/testing/graphs.h"

namespace emplace {
namespace {

TEST(OneShotTest, AsksOnceAnswersTheSameAndIsFinished) {
  const Graph graph = testing::MakeChain(2, 1, 4);
  const Cluster cluster = testing::MakeCluster(2);
  const CostTable costs = testing::MeasuredCosts(graph, cluster);
  const Simulator simulator(graph, cluster, costs);
  const Environment env(graph, cluster, costs, FindGrouper("identity").make(graph, {}), simulator);
  int asked = 0;
  const auto agent = MakeOneShot([&asked](const Environment&, Rng&) {
    ++asked;
    return Placement(2, MakeId<DeviceId>(1));
  });
  Rng rng(1);
  EXPECT_FALSE(agent->Finished());
  const auto first = agent->Propose(env, Mode::kExplore, rng);
  EXPECT_TRUE(agent->Finished());
  EXPECT_EQ(agent->Propose(env, Mode::kExploit, rng), first);
  EXPECT_EQ(asked, 1);

  std::stringstream saved;
  agent->Save(saved);
  const auto other = MakeOneShot([](const Environment&, Rng&) { return Placement(); });
  other->Load(saved);
  EXPECT_TRUE(other->Finished());
  EXPECT_EQ(other->Propose(env, Mode::kExplore, rng), first);
}

TEST(OneShotTest, AnotherAgentsDataIsRefused) {
  std::stringstream saved("annealing 5");
  const auto agent = MakeOneShot([](const Environment&, Rng&) { return Placement(); });
  EXPECT_THROW(agent->Load(saved), InputError);
}

}  // namespace
}  // namespace emplace
