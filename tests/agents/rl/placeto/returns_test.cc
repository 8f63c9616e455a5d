#include "agents/rl/placeto/returns.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <sstream>

#include "agents/rl/categorical.h"
#include "agents/saved_state.h"
#include "sim/base/rng.h"

namespace emplace {
namespace {

using ::testing::DoubleEq;
using ::testing::ElementsAre;

TEST(ReturnsTest, IntermediateRewardsTelescope) {
  Rng rng(1);
  for (int i = 0; i < 20; ++i) {
    std::vector<double> costs(10);
    for (double& cost : costs) cost = rng.Uniform();
    // G_t, the sum of the rewards from t on, is R(p_{t-1}) - R(p_T), for any order of the actions.
    const std::vector<double> returns = agents::EpisodeReturns(costs, agents::Credit::kIntermediate, 1, false);
    for (std::size_t t = 0; t < 9; ++t) EXPECT_NEAR(returns[t], costs[t] - costs[9], 1e-12);
  }
}

TEST(ReturnsTest, EachCreditByHand) {
  const std::vector<double> costs = {10, 6, 9, 7};
  EXPECT_THAT(agents::EpisodeReturns(costs, agents::Credit::kIntermediate, 1, false), ElementsAre(3, -1, 2));
  // Rewards 4, -3, 2: 2; -3 + 2 / 2; 4 - 2 / 2.
  EXPECT_THAT(agents::EpisodeReturns(costs, agents::Credit::kIntermediate, 0.5, false), ElementsAre(3, -2, 2));
  EXPECT_THAT(agents::EpisodeReturns(costs, agents::Credit::kTerminal, 1, false), ElementsAre(-7, -7, -7));
  // Lowest cost reached later: 6, 7, 7.
  EXPECT_THAT(agents::EpisodeReturns(costs, agents::Credit::kMinRuntime, 1, false), ElementsAre(4, -1, 2));
  EXPECT_THAT(agents::EpisodeReturns(costs, agents::Credit::kIntermediate, 1, true), ElementsAre(-3, 1, -2));
}

TEST(ReturnsTest, ABaselineIsTheMeanOfTheLastEpisodesTheCurrentOneIncluded) {
  agents::StepBaselines baselines(2);
  baselines.Add(std::vector<double>{1, 10});
  EXPECT_DOUBLE_EQ(baselines[0], 1);  // so the first advantage is 0
  baselines.Add(std::vector<double>{3, 20});
  EXPECT_DOUBLE_EQ(baselines[0], 2);
  baselines.Add(std::vector<double>{5, 60});
  EXPECT_DOUBLE_EQ(baselines[0], 4);  // the first has been removed
  EXPECT_DOUBLE_EQ(baselines[1], 40);
  std::stringstream saved;
  agents::SaveState(saved, baselines);
  agents::StepBaselines loaded(2);
  agents::LoadState(saved, &loaded);
  EXPECT_DOUBLE_EQ(loaded[1], 40);
}

TEST(LossTest, ItsGradientIsTheFiniteDifference) {
  Rng rng(2);
  for (int i = 0; i < 50; ++i) {
    std::vector<float> logits(5);
    for (float& logit : logits) logit = static_cast<float>(4 * rng.Uniform() - 2);
    std::vector<std::uint8_t> allowed(5, 1);
    allowed[static_cast<std::size_t>(i) % 5] = i % 2 == 0 ? 0 : 1;
    const std::size_t action = (static_cast<std::size_t>(i) + 1) % 5;
    const double advantage = 2 * rng.Uniform() - 1;
    const auto loss = [&] {
      std::vector<double> p(5);
      agents::Softmax(logits, allowed, p);
      return agents::StepLoss(p, action, advantage, 0.3);
    };
    std::vector<double> p(5);
    agents::Softmax(logits, allowed, p);
    std::vector<float> gradient(5);
    agents::LossGradient(p, action, advantage, 0.3, gradient);
    for (std::size_t d = 0; d < 5; ++d) {
      const float before = logits[d];
      logits[d] = before + 0.01F;
      const double above = loss();
      logits[d] = before - 0.01F;
      const double below = loss();
      logits[d] = before;
      EXPECT_NEAR(gradient[d], (above - below) / 0.02, 1e-4);
    }
  }
}

}  // namespace
}  // namespace emplace
