#include "agents/rl/sgdp/node_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "sim/simulator.h"
#include "tests/testing/graphs.h"

namespace emplace {
namespace {

using ::testing::ElementsAre;

constexpr std::size_t kNodes = 4;
const std::vector<std::vector<std::uint8_t>> kAllowed = {{1, 1, 1}, {1, 1, 1}, {0, 1, 1}, {0, 1, 0}};

agents::Matrix RandomLogits(Rng& rng, std::size_t width) {
  agents::Matrix logits;
  logits.Reset(kNodes, width);
  for (std::size_t node = 0; node < kNodes; ++node) {
    for (float& value : logits.values(node)) value = static_cast<float>(2 * rng.Uniform() - 1);
  }
  return logits;
}

class PpoLossTest : public ::testing::TestWithParam<bool> {};

TEST_P(PpoLossTest, ItsGradientIsTheFiniteDifference) {
  const bool mask = GetParam();
  Rng rng(5);
  const std::size_t width = mask ? 4 : 3;
  const agents::NodeOdds old = agents::OddsOf(RandomLogits(rng, width), kAllowed, mask);
  agents::Matrix logits = RandomLogits(rng, width);
  std::vector<agents::NodeActions> actions;
  std::vector<double> advantages;
  for (int n = 0; n < 6; ++n) {
    actions.push_back(agents::DrawActions(old, false, /*may_stay=*/n % 3 != 0, rng));
    advantages.push_back(2 * rng.Uniform() - 1);
  }
  const agents::PpoOptions options = {.clip_ratio = 0.3, .entropy_weight = 0.5};
  agents::Matrix gradient;
  agents::Matrix unused;
  agents::PpoLoss(old, agents::OddsOf(logits, kAllowed, mask), actions, advantages, options, &gradient);
  std::size_t slopes = 0;
  for (std::size_t node = 0; node < kNodes; ++node) {
    for (std::size_t d = 0; d < width; ++d) {
      float& value = logits.row(node)[d];
      const float before = value;
      constexpr float kStep = 1.0F / 1024;
      value = before + kStep;
      const double up =
          agents::PpoLoss(old, agents::OddsOf(logits, kAllowed, mask), actions, advantages, options, &unused);
      value = before - kStep;
      const double down =
          agents::PpoLoss(old, agents::OddsOf(logits, kAllowed, mask), actions, advantages, options, &unused);
      value = before;
      EXPECT_NEAR(gradient.row(node)[d], (up - down) / (2.0 * kStep), 1e-5) << node << ", " << d;
      slopes += std::abs(gradient.row(node)[d]) > 1e-4F ? 1 : 0;
    }
  }
  EXPECT_GT(slopes, 7U);
}

INSTANTIATE_TEST_SUITE_P(Masks, PpoLossTest, ::testing::Bool(),
                         [](const auto& mask) { return mask.param ? "Mask" : "NoMask"; });

// For the drawn actions, all ratios are 1 under the policy that drew them.
TEST_P(PpoLossTest, UnderThePolicyThatDrewItIsMinusTheMeanAdvantage) {
  Rng rng(9);
  const agents::NodeOdds odds = agents::OddsOf(RandomLogits(rng, GetParam() ? 4 : 3), kAllowed, GetParam());
  std::vector<agents::NodeActions> actions;
  actions.reserve(4);
  for (int n = 0; n < 4; ++n) actions.push_back(agents::DrawActions(odds, false, /*may_stay=*/n > 0, rng));
  agents::Matrix gradient;
  const double loss =
      agents::PpoLoss(odds, odds, actions, std::vector<double>{3, -1, 0.5, 1.5}, {.entropy_weight = 0}, &gradient);
  EXPECT_NEAR(loss, -1, 1e-12);
}

TEST(PpoLossTest, BeyondTheBoundThereIsNoSlope) {
  // The node chose device 0 with probability 1/2; the new policy has 0.9, 1.8 times as much.
  const agents::NodeOdds old = {.num_devices = 2, .devices = {0.5, 0.5}, .moves = {}};
  const agents::NodeOdds now = {.num_devices = 2, .devices = {0.9, 0.1}, .moves = {}};
  const std::vector<agents::NodeActions> actions = {{.devices = {0}, .moved = {}}};
  const agents::PpoOptions options = {.clip_ratio = 0.2, .entropy_weight = 0};
  agents::Matrix gradient;
  EXPECT_NEAR(agents::PpoLoss(old, now, actions, std::vector<double>{1}, options, &gradient), -1.2, 1e-12);
  EXPECT_EQ(gradient.row(0)[0], 0);
  // A negative advantage is not clipped: the gradient has its full weight, 1.8 * 0.1.
  EXPECT_NEAR(agents::PpoLoss(old, now, actions, std::vector<double>{-1}, options, &gradient), 1.8, 1e-12);
  EXPECT_NEAR(gradient.row(0)[0], 1.8 * 0.1, 1e-6);
}

TEST(NodePolicyTest, DrawsStayWithinWhatIsAllowed) {
  Rng rng(1);
  const agents::NodeOdds odds = agents::OddsOf(RandomLogits(rng, 3), kAllowed, false);
  for (int i = 0; i < 200; ++i) {
    const agents::NodeActions actions = agents::DrawActions(odds, i == 0, true, rng);
    ASSERT_EQ(actions.devices.size(), kNodes);
    for (std::size_t node = 0; node < kNodes; ++node) EXPECT_EQ(kAllowed[node][actions.devices[node]], 1);
  }
  agents::Matrix flat;
  flat.Reset(kNodes, 3);
  EXPECT_NEAR(agents::MeanEntropy(agents::OddsOf(flat, kAllowed, false), kAllowed), 1, 1e-12);
}

TEST(NodePolicyTest, WhereNoneCanStayTheMaskDrawsNothingAndHasNoSay) {
  Rng rng(1);
  const agents::NodeOdds old = agents::OddsOf(RandomLogits(rng, 4), kAllowed, true);
  const agents::NodeOdds now = agents::OddsOf(RandomLogits(rng, 4), kAllowed, true);
  const std::vector<agents::NodeActions> actions = {agents::DrawActions(old, false, /*may_stay=*/false, rng)};
  EXPECT_TRUE(actions[0].moved.empty());
  EXPECT_EQ(agents::DrawActions(old, false, /*may_stay=*/true, rng).moved.size(), kNodes);
  agents::Matrix gradient;
  agents::PpoLoss(old, now, actions, std::vector<double>{1}, {.clip_ratio = 10, .entropy_weight = 0}, &gradient);
  double of_devices = 0;
  for (std::size_t node = 0; node < kNodes; ++node) {
    EXPECT_EQ(gradient.row(node)[3], 0) << node;
    of_devices += std::abs(gradient.row(node)[1]);
  }
  EXPECT_GT(of_devices, 0.1);
}

TEST(NodePolicyTest, NeighboursWithTheMostBytesComeFirst) {
  // "d" reads 40 bytes of a, 400 of b, 4 of c, and sends 100 to e.
  const Graph graph = testing::Build({testing::MakeOp("a", 1, {}, {40}), testing::MakeOp("b", 2, {}, {400}),
                                      testing::MakeOp("c", 3, {}, {4}), testing::MakeOp("d", 4, {"a", "b", "c"}, {100}),
                                      testing::MakeOp("e", 5, {"d"})});
  const Cluster cluster = testing::MakeCluster(2);
  const CostTable costs = testing::MeasuredCosts(graph, cluster);
  const Simulator simulator(graph, cluster, costs, {});
  const agents::Environment env(graph, cluster, costs, FindGrouper("identity").make(graph, {}), simulator);
  const agents::GraphRows rows = agents::RowsOf(env, agents::DescribeNodes(env), 3);
  EXPECT_THAT(rows.neighbours[3], ElementsAre(1, 4, 0));
  EXPECT_THAT(rows.neighbours[4], ElementsAre(3));
  EXPECT_NEAR(rows.numbers.row(3)[8], std::log(5.0), 1e-6);
  EXPECT_NEAR(rows.numbers.row(3)[9], std::log(101.0), 1e-6);
}

}  // namespace
}  // namespace emplace
