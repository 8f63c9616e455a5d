#include "agents/rl/doppler/rollout.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "agents/nn/parameters.h"
#include "agents/rl/categorical.h"
#include "tests/testing/graphs.h"
#include "tests/testing/observations.h"

namespace emplace::agents {
namespace {

TEST(AddChoiceGradientsTest, TheyEqualFiniteDifferences) {
  const std::vector<std::uint8_t> allowed = {1, 1, 0, 1};
  const std::vector<std::uint8_t> targets = {1, 0, 0, 1};
  const std::vector<float> logits = {0.3F, -0.8F, 5, 1.1F};
  const auto losses = [&](const std::vector<float>& at) {
    std::vector<double> p(at.size());
    Softmax(at, allowed, p);
    return std::pair(-std::log(p[0] + p[3]), -Entropy(p));
  };
  std::vector<double> p(logits.size());
  Softmax(logits, allowed, p);
  std::vector<float> likelihood(logits.size(), 1);
  std::vector<float> entropy(logits.size(), 1);
  AddChoiceGradients(p, targets, likelihood, entropy);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    std::vector<float> up = logits;
    std::vector<float> down = logits;
    up[i] += 1e-2F;
    down[i] -= 1e-2F;
    EXPECT_NEAR(likelihood[i], 1 + (losses(up).first - losses(down).first) / 2e-2, 1e-3);
    EXPECT_NEAR(entropy[i], 1 + (losses(up).second - losses(down).second) / 2e-2, 1e-3);
  }
}

// A graph, a policy with random weights, and an episode of it.
struct World {
  explicit World(std::uint64_t seed, std::size_t num_ops = 12)
      : rng(seed),
        seen(testing::MakeObservation(testing::RandomDag(rng, {.num_ops = num_ops, .fractional = true}),
                                      testing::MakeCluster(3))),
        problem(seen, false),
        policy({.width = 8, .rounds = 2}) {
    policy.parameters().InitializeGlorot(rng);
    policy.Pack();
    policy.Embed(problem);
  }
  Rollout Run(const Exploration& exploration, RolloutTarget target) {
    policy.Pack();
    policy.Embed(problem);
    Rng own(4);
    return RunEpisode(seen, problem, exploration, target, "test", policy, own);
  }
  Rng rng;
  Observation seen;
  AssignmentProblem problem;
  DualPolicy policy;
};

class RolloutGradientTest : public ::testing::TestWithParam<RolloutTarget> {};

// With epsilon = 1 decisions do not depend on the weights, so the loss of an episode is a smooth function of these.
TEST_P(RolloutGradientTest, TheGradientOfTheLossEqualsFiniteDifferencesOfIt) {
  World world(6);
  constexpr Exploration kRandom = {.draw = false, .epsilon = 1};
  const Rollout rollout = world.Run(kRandom, GetParam());
  std::vector<float> gradients(world.policy.parameters().size());
  std::vector<float> d_scores(world.problem.num_groups());
  AddRolloutLoss(rollout, 2, 0, world.policy, d_scores, gradients);
  world.policy.Backward(d_scores, gradients);
  const auto loss = [&] { return 2 * world.Run(kRandom, GetParam()).loss / 12; };
  const double before_change = loss();
  std::size_t checked = 0;
  for (const Parameter& parameter : world.policy.parameters().parameters()) {
    for (std::size_t k = 0; k < 6; ++k) {
      const std::size_t at = parameter.offset + world.rng.Below(parameter.size());
      constexpr float kStep = 1e-3F;
      float& weight = world.policy.parameters().values()[at];
      const float before = weight;
      weight = before + kStep;
      const double up = loss() - before_change;
      weight = before - kStep;
      const double down = before_change - loss();
      weight = before;
      // Slopes on both sides differ where a ReLU begins.
      if (std::abs(up - down) > 5e-6) continue;
      EXPECT_NEAR(gradients[at], (up + down) / (2 * static_cast<double>(kStep)), 5e-3) << parameter.name;
      checked += gradients[at] != 0 ? 1 : 0;
    }
  }
  EXPECT_GT(checked, 2 * world.policy.parameters().parameters().size());
}

INSTANTIATE_TEST_SUITE_P(Targets, RolloutGradientTest,
                         ::testing::Values(RolloutTarget::kChosen, RolloutTarget::kTeacher),
                         [](const auto& of) { return of.param == RolloutTarget::kChosen ? "Chosen" : "Teacher"; });

TEST(RunEpisodeTest, AssignsEveryGroupOnceAfterItsProducers) {
  World world(7, 30);
  const Rollout rollout = world.Run({.draw = true}, RolloutTarget::kChosen);
  std::vector<bool> assigned(30);
  for (const std::uint32_t group : rollout.episode.groups) {
    EXPECT_FALSE(assigned[group]);
    for (const std::uint32_t producer : world.problem.producers[group]) EXPECT_TRUE(assigned[producer]);
    assigned[group] = true;
  }
  EXPECT_EQ(std::count(assigned.begin(), assigned.end(), true), 30);
  EXPECT_GT(rollout.mean_entropy, 0.3);
  EXPECT_LE(rollout.mean_entropy, 1);
}

TEST(AddStartPriorTest, AStartMakesItsDevicesLikelier) {
  World world(8, 100);
  std::vector<float> logits(3);
  const std::vector<std::uint8_t> allowed(3, 1);
  AddStartPrior(world.problem, 5, allowed, logits);
  EXPECT_EQ(logits, std::vector<float>(3));
  world.problem.start = Placement(100);
  AddStartPrior(world.problem, 5, allowed, logits);
  EXPECT_NEAR(logits[0], std::log(0.96 / 0.04 * 2), 1e-5);  // 4 of 100 groups are elsewhere, on two devices
  EXPECT_EQ(logits[1], 0);
  const Placement drawn = world.Run({.draw = true}, RolloutTarget::kChosen).placement;
  EXPECT_GT(std::ranges::count(drawn.devices(), MakeId<DeviceId>(0)), 70);
  std::vector<float> others(3);
  AddStartPrior(world.problem, 5, std::vector<std::uint8_t>{0, 1, 1}, others);
  EXPECT_EQ(others, std::vector<float>(3));
}

// Imitation from random weights: the likeliest decisions become those of the critical-path policy.
TEST(RunEpisodeTest, ImitationReproducesTheCriticalPathPolicyOnRandomGraphs) {
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    World world(seed, 40);
    DualPolicy& policy = world.policy;
    Adam adam;
    for (int i = 0; i < 400; ++i) {
      policy.Embed(world.problem);
      const double left = 1 - i / 400.0;
      const Rollout rollout = RunEpisode(world.seen, world.problem, {.draw = false, .epsilon = left},
                                         RolloutTarget::kTeacher, "test", policy, world.rng);
      std::vector<float> gradients(policy.parameters().size());
      std::vector<float> d_scores(world.problem.num_groups());
      AddRolloutLoss(rollout, 1, 0, policy, d_scores, gradients);
      policy.Backward(d_scores, gradients);
      adam.Step(3e-3 * left, gradients, policy.parameters().values());
      policy.Pack();
    }
    const Rollout learned = world.Run({}, RolloutTarget::kTeacher);
    EXPECT_GE(learned.like_teacher[0], 38U) << "seed " << seed;
    EXPECT_GE(learned.like_teacher[1], 38U) << "seed " << seed;
  }
}

}  // namespace
}  // namespace emplace::agents
