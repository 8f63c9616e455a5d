#include "agents/heuristics/one_shot.h"

#include <gtest/gtest.h>

#include <sstream>

#include "sim/base/check.h"
#include "tests/testing/graphs.h"
#include "tests/testing/problem.h"

namespace emplace {
namespace {

TEST(OneShotTest, AsksOnceAnswersTheSameAndIsFinished) {
  const testing::Problem problem(testing::MakeChain(2, 1, 4), testing::MakeCluster(2));
  int asked = 0;
  const auto agent = agents::MakeOneShot([&asked](const agents::Environment&, Rng&) {
    ++asked;
    return Placement(2, MakeId<DeviceId>(1));
  });
  Rng rng(1);
  EXPECT_FALSE(agent->Finished());
  const auto first = agent->Propose(problem.env, agents::Mode::kExplore, rng).placements;
  EXPECT_TRUE(agent->Finished());
  EXPECT_EQ(agent->Propose(problem.env, agents::Mode::kExploit, rng).placements, first);
  EXPECT_EQ(asked, 1);

  std::stringstream saved;
  agent->Save(saved);
  const auto other = agents::MakeOneShot([](const agents::Environment&, Rng&) { return Placement(); });
  other->Load(saved);
  EXPECT_TRUE(other->Finished());
  EXPECT_EQ(other->Propose(problem.env, agents::Mode::kExplore, rng).placements, first);
}

TEST(OneShotTest, AnotherAgentsDataIsRefused) {
  std::stringstream saved("annealing 5");
  const auto agent = agents::MakeOneShot([](const agents::Environment&, Rng&) { return Placement(); });
  EXPECT_THROW(agent->Load(saved), InputError);
}

}  // namespace
}  // namespace emplace
