#include "agents/rl/policy_agent.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "agents/saved_state.h"
#include "sim/base/check.h"
#include "tests/testing/errors.h"
#include "tests/testing/graphs.h"
#include "tests/testing/problem.h"

namespace emplace {
namespace {

// An agent with a network of one weight for each device, and the number of proposals as its state.
class OneRow : public agents::SavedByFields<OneRow, agents::PolicyAgent> {
 public:
  explicit OneRow(bool fine_tune = false) : SavedByFields("one_row", {}, fine_tune) {}

  agents::Proposal Propose(const agents::Environment& env, agents::Mode, Rng& rng) override {
    EnsureNetwork(env.observation(), rng);
    CheckDevices(env.observation());
    ++proposals;
    return {.placements = {Placement(env.observation().num_groups())}};
  }

  static void SavedFields(auto& state, auto& self) {
    if (NetworkFields(state, self)) state(self.row, self.proposals);
  }

  std::size_t proposals = 0;
  std::string shape = "plain";
  agents::ParameterSet row;

 private:
  void MakeNetwork(std::size_t num_devices) override {
    row = agents::ParameterSet();
    row.Add("row", 1, num_devices, false);
  }
  void DrawWeights(Rng& rng) override { row.InitializeGlorot(rng); }
  agents::ParameterSet& weights() override { return row; }
  const agents::ParameterSet& weights() const override { return row; }
  void SaveShape(std::ostream& out) const override { out << shape; }
  void LoadShape(std::istream& in, std::size_t) const override { agents::ExpectWord(in, shape); }
};

std::vector<float> Weights(const OneRow& agent) { return {agent.row.values().begin(), agent.row.values().end()}; }

class PolicyAgentTest : public ::testing::Test {
 protected:
  PolicyAgentTest() { agent_.Propose(problem_.env, agents::Mode::kExplore, rng_); }
  std::string Policy() const {
    std::ostringstream out;
    agent_.SavePolicy(out);
    return out.str();
  }

  testing::Problem problem_{testing::MakeChain(2, 1, 4), testing::MakeCluster(3)};
  Rng rng_{1};
  OneRow agent_;
};

TEST_F(PolicyAgentTest, WeightsAreDrawnOnceForTheDevicesOfTheFirstGraph) {
  const std::vector<float> drawn = Weights(agent_);
  EXPECT_EQ(drawn.size(), 3U);
  agent_.Propose(problem_.env, agents::Mode::kExplore, rng_);
  EXPECT_EQ(Weights(agent_), drawn);
}

TEST_F(PolicyAgentTest, ACheckpointHoldsWeightsAndTheRest) {
  std::stringstream saved;
  agent_.Save(saved);
  OneRow loaded;
  loaded.Load(saved);
  EXPECT_EQ(Weights(loaded), Weights(agent_));
  EXPECT_EQ(loaded.proposals, 1U);
  EXPECT_FALSE(loaded.OnlyApplies());
  std::stringstream before;
  OneRow().Save(before);
  OneRow fresh;
  fresh.Load(before);
  EXPECT_EQ(fresh.proposals, 0U);
}

TEST_F(PolicyAgentTest, APolicyHoldsWeightsAloneAndIsAppliedUnlessItIsTrainedFurther) {
  OneRow applied;
  std::istringstream in(Policy());
  applied.LoadPolicy(in);
  EXPECT_EQ(Weights(applied), Weights(agent_));
  EXPECT_EQ(applied.proposals, 0U);
  EXPECT_TRUE(applied.OnlyApplies());
  OneRow trained(/*fine_tune=*/true);
  std::istringstream again(Policy());
  trained.LoadPolicy(again);
  EXPECT_FALSE(trained.OnlyApplies());
  // Propose() does not draw new weights: the loaded ones stay.
  trained.Propose(problem_.env, agents::Mode::kExplore, rng_);
  EXPECT_EQ(Weights(trained), Weights(agent_));
}

TEST_F(PolicyAgentTest, APolicyOfAnotherShapeOrForAnotherNumberOfDevicesIsRefused) {
  OneRow other;
  other.shape = "fancy";
  std::istringstream in(Policy());
  EXPECT_THROW(other.LoadPolicy(in), InputError);
  OneRow applied;
  std::istringstream again(Policy());
  applied.LoadPolicy(again);
  testing::Problem two(testing::MakeChain(2, 1, 4), testing::MakeCluster(2));
  EXPECT_EQ(testing::ErrorOf([&] {
              applied.Propose(two.env, agents::Mode::kExplore, rng_);
            }).find("policy: is for 3 devices"),
            0U);
  EXPECT_EQ(testing::ErrorOf([&] {
              agent_.Propose(two.env, agents::Mode::kExplore, rng_);
            }).find("one_row: is for 3 devices"),
            0U);
}

TEST_F(PolicyAgentTest, BeforeTheFirstGraphThereIsNoPolicy) {
  std::ostringstream out;
  EXPECT_EQ(testing::ErrorOf([&] { OneRow().SavePolicy(out); }), "policy: has not been drawn yet");
}

}  // namespace
}  // namespace emplace
