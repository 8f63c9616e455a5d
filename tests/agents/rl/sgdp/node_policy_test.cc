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
using ::testing::FloatEq;

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

struct LossCase {
  const char* name;
  bool mask = false;
  agents::PpoRatio ratio = agents::PpoRatio::kNode;
  bool sum_entropy = false;
};
std::ostream& operator<<(std::ostream& out, const LossCase& of) { return out << of.name; }

// The probability of a node's sampled action.
double Probability(const agents::NodeOdds& odds, std::size_t node, const agents::NodeActions& actions) {
  const double of_device = odds.devices[node * odds.num_devices + actions.devices[node]];
  if (actions.moved.empty()) return of_device;
  return actions.moved[node] != 0 ? odds.moves[node] * of_device : 1 - odds.moves[node];
}

// The loss as node_policy.h states it, with one product of all nodes' ratios for a joint one.
double SlowLoss(const agents::NodeOdds& old, const agents::NodeOdds& now,
                const std::vector<agents::NodeActions>& actions, const std::vector<double>& advantages,
                const agents::PpoOptions& options) {
  const auto clipped = [&](double ratio, double advantage) {
    const double bounded = std::min(std::max(ratio, 1 - options.clip_ratio), 1 + options.clip_ratio);
    return std::min(ratio * advantage, bounded * advantage);
  };
  double objective = 0;
  for (std::size_t n = 0; n < actions.size(); ++n) {
    double product = 1;
    double sum = 0;
    for (std::size_t node = 0; node < kNodes; ++node) {
      const double ratio = Probability(now, node, actions[n]) / Probability(old, node, actions[n]);
      product *= ratio;
      sum += clipped(ratio, advantages[n]);
    }
    if (options.ratio == agents::PpoRatio::kNode) objective += sum / kNodes;
    if (options.ratio == agents::PpoRatio::kJoint) objective += clipped(product, advantages[n]);
    if (options.ratio == agents::PpoRatio::kMean) objective += clipped(std::pow(product, 1.0 / kNodes), advantages[n]);
  }
  double entropy = 0;
  const auto add = [&](double p) { entropy -= p > 0 ? p * std::log(p) : 0; };
  for (const double p : now.devices) add(p);
  for (const double q : now.moves) {
    add(q);
    add(1 - q);
  }
  if (!options.sum_entropy) entropy /= kNodes;
  return -objective / static_cast<double>(actions.size()) - options.entropy_weight * entropy;
}

class PpoLossTest : public ::testing::TestWithParam<LossCase> {
 protected:
  PpoLossTest() {
    for (int n = 0; n < 8; ++n) {
      actions_.push_back(agents::DrawActions(old_, false, /*may_stay=*/n % 3 != 0, rng_));
      advantages_.push_back(2 * rng_.Uniform() - 1);
    }
  }
  agents::NodeOdds Odds(const agents::Matrix& logits) const {
    return agents::OddsOf(logits, kAllowed, GetParam().mask);
  }
  double Loss(const agents::Matrix& logits, agents::Matrix* gradient) const {
    return agents::PpoLoss(old_, Odds(logits), actions_, advantages_, options_, gradient);
  }

  Rng rng_{5};
  std::size_t width_ = GetParam().mask ? 4 : 3;
  agents::NodeOdds old_ = Odds(RandomLogits(rng_, width_));
  std::vector<agents::NodeActions> actions_;
  std::vector<double> advantages_;
  agents::PpoOptions options_ = {
      .clip_ratio = 0.3, .entropy_weight = 0.5, .ratio = GetParam().ratio, .sum_entropy = GetParam().sum_entropy};
};

TEST_P(PpoLossTest, ItIsTheLossOfTheDefinition) {
  for (int i = 0; i < 20; ++i) {
    const agents::NodeOdds now = Odds(RandomLogits(rng_, width_));
    agents::Matrix unused;
    EXPECT_NEAR(agents::PpoLoss(old_, now, actions_, advantages_, options_, &unused),
                SlowLoss(old_, now, actions_, advantages_, options_), 1e-12);
  }
}

TEST_P(PpoLossTest, ItsGradientIsTheFiniteDifference) {
  agents::Matrix logits = RandomLogits(rng_, width_);
  agents::Matrix gradient;
  agents::Matrix unused;
  Loss(logits, &gradient);
  std::size_t slopes = 0;
  for (std::size_t node = 0; node < kNodes; ++node) {
    for (std::size_t d = 0; d < width_; ++d) {
      float& value = logits.row(node)[d];
      const float before = value;
      constexpr float kStep = 1.0F / 1024;
      value = before + kStep;
      const double up = Loss(logits, &unused);
      value = before - kStep;
      const double down = Loss(logits, &unused);
      value = before;
      EXPECT_NEAR(gradient.row(node)[d], (up - down) / (2.0 * kStep), 1e-5) << node << ", " << d;
      slopes += std::abs(gradient.row(node)[d]) > 1e-4F ? 1 : 0;
    }
  }
  EXPECT_GT(slopes, 7U);
}

INSTANTIATE_TEST_SUITE_P(
    Losses, PpoLossTest,
    ::testing::Values(LossCase{.name = "NoMask"}, LossCase{.name = "Mask", .mask = true},
                      LossCase{.name = "SumOfEntropies", .sum_entropy = true},
                      LossCase{.name = "Joint", .ratio = agents::PpoRatio::kJoint},
                      LossCase{.name = "JointMask", .mask = true, .ratio = agents::PpoRatio::kJoint},
                      LossCase{.name = "JointSumOfEntropies", .ratio = agents::PpoRatio::kJoint, .sum_entropy = true},
                      LossCase{.name = "Mean", .ratio = agents::PpoRatio::kMean},
                      LossCase{.name = "MeanMask", .mask = true, .ratio = agents::PpoRatio::kMean}),
    [](const auto& of) { return of.param.name; });

// For the drawn actions, all ratios are 1 under the policy that drew them.
TEST_P(PpoLossTest, UnderThePolicyThatDrewItIsMinusTheMeanAdvantage) {
  agents::PpoOptions options = options_;
  options.entropy_weight = 0;
  double mean = 0;
  for (const double advantage : advantages_) mean += advantage / static_cast<double>(advantages_.size());
  agents::Matrix gradient;
  EXPECT_NEAR(agents::PpoLoss(old_, old_, actions_, advantages_, options, &gradient), -mean, 1e-12);
}

TEST(PpoLossBoundTest, JointRatiosOfManyNodesStayFinite) {
  // 2,000 nodes, each 1.8 times or a fifth as likely as before: 1.8^2000 is 10^510, which no double holds.
  constexpr std::size_t kMany = 2000;
  agents::NodeOdds old = {.num_devices = 2, .devices = {}, .moves = {}};
  agents::NodeOdds now = {.num_devices = 2, .devices = {}, .moves = {}};
  std::vector<agents::NodeActions> actions(2);
  for (std::size_t node = 0; node < kMany; ++node) {
    old.devices.insert(old.devices.end(), {0.5, 0.5});
    now.devices.insert(now.devices.end(), {0.9, 0.1});
    actions[0].devices.push_back(0);
    actions[1].devices.push_back(1);
  }
  const agents::PpoOptions options = {.clip_ratio = 0.2, .entropy_weight = 0, .ratio = agents::PpoRatio::kJoint};
  agents::Matrix gradient;
  const double most = std::exp(agents::kMostLogRatio);
  // The first placement is far likelier than before, against its advantage: it must become less likely.
  EXPECT_NEAR(agents::PpoLoss(old, now, actions, std::vector<double>{-1, 0}, options, &gradient), most / 2, 1e-3);
  EXPECT_NEAR(gradient.row(0)[0], 0.1 * most / 2, 1);
  EXPECT_NEAR(gradient.row(0)[1], -0.1 * most / 2, 1);
  // The second is far less likely, as its advantage has it: clipped, and without slope.
  EXPECT_NEAR(agents::PpoLoss(old, now, actions, std::vector<double>{0, -1}, options, &gradient), 0.8 / 2, 1e-9);
  EXPECT_EQ(gradient.row(0)[0], 0);
  // Both with positive ones: 1.2 for the first, nearly 0 for the second, whose slope is its ratio.
  EXPECT_NEAR(agents::PpoLoss(old, now, actions, std::vector<double>{1, 1}, options, &gradient), -1.2 / 2, 1e-8);
  EXPECT_GT(gradient.row(0)[0], 0);
  EXPECT_LT(gradient.row(0)[0], 1e-8);
}

TEST(PpoLossBoundTest, BeyondTheBoundThereIsNoSlope) {
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
  EXPECT_EQ(rows.numbers.width(), agents::kNodeNumbers);
  // Breadth first, the ops are 0 to 4.
  const agents::GraphRows with_ids = agents::RowsOf(env, agents::DescribeNodes(env), 3, /*neighbour_ids=*/true);
  EXPECT_THAT(with_ids.numbers.values(3).subspan(agents::kNodeNumbers),
              ElementsAre(0, FloatEq(0.2F), FloatEq(0.4F), -1, -1, -1, FloatEq(0.8F), -1, -1, -1, -1, -1));
  EXPECT_EQ(with_ids.numbers.row(3)[9], rows.numbers.row(3)[9]);
}

}  // namespace
}  // namespace emplace
