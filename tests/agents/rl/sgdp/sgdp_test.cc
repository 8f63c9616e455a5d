#include "agents/rl/sgdp/sgdp.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "sim/base/check.h"
#include "tests/testing/errors.h"
#include "tests/testing/graphs.h"
#include "tests/testing/searches.h"

namespace emplace {
namespace sgdp_test {

using ::emplace::testing::MakeCluster;
using ::emplace::testing::MakeSearch;
using ::testing::HasSubstr;

struct Variant {
  const char* name;
  OptionMap options;
};
std::ostream& operator<<(std::ostream& out, const Variant& variant) { return out << variant.name; }

class SgdpTest : public ::testing::TestWithParam<Variant> {
 protected:
  static agents::SearchSpec Trial(const Graph& graph, const Cluster& cluster, std::size_t evaluations) {
    OptionMap options = GetParam().options;
    options.insert({"entropy", "0.02"});
    options.insert({"epochs", "4"});
    options.insert({"use_cpus", "true"});
    agents::SearchSpec spec = MakeSearch(graph, cluster, "sgdp", options);
    spec.evaluations = evaluations;
    return spec;
  }
};

TEST_P(SgdpTest, FindsTheOptimumOfSixGroupsAndKeepsItUnderArgmaxSlow) {
  const Graph graph = testing::MakeTwoChainsOfKinds();
  const double optimum = testing::FastestOfAll(graph, testing::MakeMixedCluster(1));
  const agents::SearchResult result = agents::RunSearch(Trial(graph, testing::MakeMixedCluster(1), 2001));
  EXPECT_EQ(result.evaluations, 2001U);
  EXPECT_EQ(result.best_result.step_time_micros, optimum);
  ASSERT_FALSE(result.episodes.empty());
  EXPECT_TRUE(result.episodes.back().argmax);
  EXPECT_FALSE(result.episodes.back().gradient_norm);
  ASSERT_TRUE(result.episodes.front().gradient_norm);
  EXPECT_GT(*result.episodes.front().gradient_norm, 0);
  EXPECT_EQ(result.episodes.back().final_micros, optimum);
  EXPECT_GT(result.episodes.front().entropy, 0.1);
  // With a mask, nodes stay on the best placement's device, so the policy never learns their device.
  if (!GetParam().options.contains("mask")) {
    EXPECT_LT(result.episodes.back().entropy, 0.5);
  }
}

TEST_P(SgdpTest, AStoppedSearchGoesOnToTheSameResultLengthy) {
  Rng rng(8);
  agents::SearchSpec spec = Trial(testing::RandomDag(rng, {.num_ops = 8}), MakeCluster(3), 801);
  spec.agent_options["epochs"] = "1";
  const agents::SearchResult uninterrupted = agents::RunSearch(spec);
  const agents::SearchResult resumed =
      testing::StoppedAndResumed(spec, std::string("sgdp_checkpoint_") + GetParam().name, {550});
  EXPECT_EQ(resumed.best, uninterrupted.best);
  EXPECT_EQ(resumed.policy, uninterrupted.policy);
  EXPECT_EQ(resumed.episodes, uninterrupted.episodes);
}

TEST_P(SgdpTest, TheFasterDeviceIsLearnedLengthy) {
  testing::ExpectTheAcceleratorIsLearned(
      agents::RunSearch(Trial(testing::MakeTwoOpsForTheAccelerator(), testing::MakeMixedCluster(1), 801)));
}

INSTANTIATE_TEST_SUITE_P(
    Variants, SgdpTest,
    ::testing::Values(
        Variant{"Sgdp", {}}, Variant{"Mask", {{"mask", "true"}}}, Variant{"Gat", {{"neighbourhood", "gat"}}},
        Variant{"Mlp", {{"context", "mlp"}}}, Variant{"Joint", {{"ratio", "joint"}}},
        Variant{"Sum", {{"entropy_over", "sum"}}}, Variant{"Mean", {{"ratio", "mean"}}},
        Variant{"Cumulative", {{"baseline", "cumulative"}, {"ratio", "node"}, {"learning_rate", "0.001"}}},
        Variant{
            "Ids",
            {{"neighbour_ids", "true"}, {"baseline", "cumulative"}, {"ratio", "node"}, {"learning_rate", "0.001"}}}),
    [](const auto& of) { return of.param.name; });

// Table 4 of the paper, except the learning rate and the weight on entropy; table 3 for the network. The last four are
// ours (docs/results/tuning.md).
TEST(SgdpOptionsTest, ThePapersSettingsAreTheDefaultsExceptFour) {
  const agents::SgdpOptions options;
  EXPECT_EQ(options.rollouts * 40, 800U);
  EXPECT_EQ(options.epochs, 20U);
  EXPECT_EQ(options.clip_ratio, 0.2);
  EXPECT_EQ(options.network.layers, 4U);
  EXPECT_EQ(options.network.width, 128U);
  EXPECT_EQ(options.network.neighbours, 5U);
  EXPECT_EQ(options.network.attention_layers, 2U);
  EXPECT_EQ(options.network.heads, 5U);
  EXPECT_EQ(options.network.head_width, 25U);
  EXPECT_EQ(options.network.inner, 256U);
  EXPECT_EQ(options.learning_rate, 3e-4);
  EXPECT_EQ(options.entropy_weight, 0.005);
  EXPECT_EQ(options.ratio, agents::PpoRatio::kNode);
  EXPECT_EQ(options.baseline, agents::SgdpBaseline::kBatch);
}

// With mean entropy the weight of one node is that of the sum over a graph's nodes, divided by their number.
TEST(SgdpOptionsTest, TheSumOfEntropiesIsTheMeanTimesTheNodesLengthy) {
  Rng rng(7);
  agents::SearchSpec spec =
      MakeSearch(testing::RandomDag(rng, {.num_ops = 10}), MakeCluster(3), "sgdp", {{"epochs", "2"}, {"entropy", "1"}});
  spec.evaluations = 61;
  const std::string mean = agents::RunSearch(spec).policy;
  spec.agent_options["entropy_over"] = "sum";
  EXPECT_NE(agents::RunSearch(spec).policy, mean);
  spec.agent_options["entropy"] = "0.1";
  EXPECT_EQ(agents::RunSearch(spec).policy, mean);
}

// In an update with one placement the batch's mean is its reward, so that only the entropy is learned from it.
TEST(SgdpOptionsTest, TheBatchsMeanIsItsOwnBaseline) {
  Rng rng(7);
  agents::SearchSpec spec =
      MakeSearch(testing::RandomDag(rng, {.num_ops = 10}), MakeCluster(3), "sgdp",
                 {{"epochs", "1"}, {"entropy", "0"}, {"rollouts", "2"}, {"baseline", "cumulative"}});
  spec.evaluations = 5;
  agents::SearchSpec batch = spec;
  batch.agent_options["baseline"] = "batch";
  EXPECT_NE(agents::RunSearch(batch).policy, agents::RunSearch(spec).policy);
  batch.agent_options["rollouts"] = "1";
  EXPECT_EQ(testing::ErrorOf([&] { agents::RunSearch(batch); }),
            "baseline: is the batch's mean, which one placement an update equals (cumulative)");
}

TEST(SgdpPolicyTest, LearnsOnSeveralGraphsAndIsAppliedToAnother) {
  Rng rng(7);
  const auto problem = [&] { return MakeSearch(testing::RandomDag(rng, {.num_ops = 10}), MakeCluster(2), "").problem; };
  agents::SearchSpec spec =
      MakeSearch(testing::RandomDag(rng, {.num_ops = 8}), MakeCluster(2), "sgdp", {{"epochs", "2"}});
  spec.also = {problem(), problem()};
  spec.transfer = {problem()};
  spec.evaluations = 81;
  const agents::SearchResult result = agents::RunSearch(spec);
  EXPECT_EQ(result.evaluations, 81U);
  ASSERT_EQ(result.also.size(), 2U);
  EXPECT_EQ(result.also[1].evaluations, 81U);
  ASSERT_EQ(result.transfer.size(), 1U);
  EXPECT_EQ(result.transfer[0].evaluations, 1 + 10 + 1U);  // the single device, ten draws, the likeliest placement
  EXPECT_FALSE(result.policy.empty());
}

// Fine-tuning starts from the learned policy, and trains it for as many evaluations as before.
TEST(SgdpPolicyTest, FineTuningStartsFromWhatWasLearnedLengthy) {
  const Graph graph = testing::MakeTwoOpsForTheAccelerator();
  agents::SearchSpec spec =
      MakeSearch(graph, testing::MakeMixedCluster(1), "sgdp",
                 {{"entropy", "0.02"}, {"epochs", "4"}, {"use_cpus", "true"}, {"fine_tune", "true"}});
  spec.evaluations = 801;
  spec.transfer = {MakeSearch(graph, testing::MakeMixedCluster(1), "").problem};
  const agents::SearchResult result = agents::RunSearch(spec);
  ASSERT_EQ(result.transfer.size(), 1U);
  const agents::GraphResult& tuned = result.transfer[0];
  EXPECT_EQ(tuned.evaluations, 801U);
  ASSERT_EQ(tuned.episodes.size(), result.episodes.size());
  EXPECT_GT(result.episodes.front().entropy, 0.5);
  EXPECT_LT(tuned.episodes.front().entropy, 0.3);
  EXPECT_NE(tuned.episodes[1].entropy, tuned.episodes[0].entropy);
}

TEST(SgdpOptionsTest, WithoutAnOutputScaleAllDevicesAreEquallyLikelyAtFirst) {
  Rng rng(7);
  agents::SearchSpec spec =
      MakeSearch(testing::RandomDag(rng, {.num_ops = 10}), MakeCluster(3), "sgdp", {{"epochs", "1"}});
  spec.evaluations = 20;
  EXPECT_LT(agents::RunSearch(spec).episodes.front().entropy, 0.999);
  spec.agent_options["output_scale"] = "0";
  EXPECT_NEAR(agents::RunSearch(spec).episodes.front().entropy, 1, 1e-6);
}

TEST(SgdpPolicyTest, APolicyOfOtherOptionsOrDevicesIsRefused) {
  agents::SearchSpec spec =
      MakeSearch(testing::MakeTwoChainsOfKinds(), testing::MakeMixedCluster(1), "sgdp", {{"epochs", "1"}});
  spec.evaluations = 21;
  const std::string policy = agents::RunSearch(spec).policy;
  std::istringstream in(policy);
  EXPECT_THAT(testing::ErrorOf([&] {
                agents::MakeAgent("sgdp", {{"layers", "3"}}, {})->LoadPolicy(in);
              }),
              HasSubstr("is a policy trained with other options"));
  std::istringstream wider(policy);
  EXPECT_THAT(testing::ErrorOf([&] {
                agents::MakeAgent("sgdp", {{"inner", "64"}}, {})->LoadPolicy(wider);
              }),
              HasSubstr("is a policy trained with other options"));
  std::istringstream with_ids(policy);
  EXPECT_THAT(testing::ErrorOf([&] {
                agents::MakeAgent("sgdp", {{"neighbour_ids", "true"}}, {})->LoadPolicy(with_ids);
              }),
              AllOf(HasSubstr("is a policy trained with other options"), HasSubstr("neighbour_ids=true: the options")));
  std::istringstream placeto("emplace.policy 2 placeto 2");
  EXPECT_EQ(testing::ErrorOf([&] { agents::MakeAgent("sgdp", {}, {})->LoadPolicy(placeto); }),
            "is a policy of agent placeto (sgdp)");
  std::istringstream nonsense("{}");
  EXPECT_EQ(testing::ErrorOf([&] { agents::MakeAgent("sgdp", {}, {})->LoadPolicy(nonsense); }),
            "is not a policy (a file with a policy that emplace trained)");
}

}  // namespace sgdp_test
}  // namespace emplace
