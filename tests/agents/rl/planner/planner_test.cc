#include "agents/rl/planner/planner.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/testing/graphs.h"
#include "tests/testing/searches.h"

namespace emplace {
namespace planner_test {

using ::emplace::testing::MakeCluster;
using ::emplace::testing::MakeSearch;

struct Variant {
  const char* name;
  const char* agent;
  OptionMap options;
};
std::ostream& operator<<(std::ostream& out, const Variant& variant) { return out << variant.name; }

class PlannerTest : public ::testing::TestWithParam<Variant> {
 protected:
  static agents::SearchSpec Trial(const Graph& graph, const Cluster& cluster, OptionMap more = {}) {
    OptionMap options = GetParam().options;
    options.insert({"hidden", "16"});
    options.insert({"learning_rate", "0.01"});
    options.merge(more);
    agents::SearchSpec spec = MakeSearch(graph, cluster, GetParam().agent, options);
    spec.evaluations = 1200;
    return spec;
  }
};

TEST_P(PlannerTest, FindsTheOptimumOfSixGroupsAndKeepsItUnderArgmax) {
#ifdef EMPLACE_SANITIZED
  GTEST_SKIP() << "learning takes long under sanitizers; what it computes runs in the other tests";
#endif
  const Graph graph = testing::MakeTwoChainsOfKinds();
  const double optimum = testing::FastestOfAll(graph, testing::MakeMixedCluster(1));
  agents::SearchSpec spec = Trial(graph, testing::MakeMixedCluster(1), {{"temperature", "1"}, {"noise", "0"}});
  spec.evaluations = 3001;
  const agents::SearchResult result = agents::RunSearch(spec);
  EXPECT_EQ(result.evaluations, 3001U);
  EXPECT_EQ(result.best_result.step_time_micros, optimum);
  ASSERT_FALSE(result.episodes.empty());
  EXPECT_TRUE(result.episodes.back().argmax);
  EXPECT_EQ(result.episodes.back().final_micros, optimum);
  EXPECT_GT(result.episodes.front().entropy, 0.6);
  EXPECT_LT(result.episodes[result.episodes.size() - 2].entropy, 0.5 * result.episodes.front().entropy);
}

TEST_P(PlannerTest, LearningCurvesHaveGradientsEntropiesAndTies) {
  Rng rng(8);
  agents::SearchSpec spec = Trial(testing::RandomDag(rng, {.num_ops = 8}), MakeCluster(3));
  spec.evaluations = 41;  // ten updates and the likeliest placement
  const agents::SearchResult result = agents::RunSearch(spec);
  ASSERT_EQ(result.episodes.size(), 11U);
  const bool has_both = std::string(GetParam().name) == "Hierarchical";
  for (const agents::EpisodeRecord& record : result.episodes) {
    EXPECT_EQ(record.gradient_norm.has_value(), record.episode < 10) << record.episode;
    EXPECT_GE(record.gradient_norm.value_or(0), 0);
    EXPECT_EQ(record.tied.has_value(), record.argmax);
    ASSERT_EQ(record.grouper_entropy.has_value(), has_both);
    EXPECT_GT(record.grouper_entropy.value_or(1), 0.3);
  }
  EXPECT_GT(*result.episodes[5].gradient_norm, 0);
  EXPECT_EQ(result.episodes.back().tied, 0U);
}

TEST_P(PlannerTest, AStoppedSearchGoesOnToTheSameResult) {
  Rng rng(8);
  agents::SearchSpec spec = Trial(testing::RandomDag(rng, {.num_ops = 8}), MakeCluster(3));
  spec.evaluations = 800;
  const agents::SearchResult uninterrupted = agents::RunSearch(spec);
  const agents::SearchResult resumed =
      testing::StoppedAndResumed(spec, std::string("planner_checkpoint_") + GetParam().name, {550});
  EXPECT_EQ(resumed.best, uninterrupted.best);
  EXPECT_EQ(resumed.episodes, uninterrupted.episodes);
  EXPECT_EQ(resumed.trace, uninterrupted.trace);
}

TEST_P(PlannerTest, TheFasterDeviceIsLearned) {
  agents::SearchSpec spec =
      Trial(testing::MakeTwoOpsForTheAccelerator(), testing::MakeMixedCluster(1), {{"noise", "0"}});
  spec.evaluations = 801;
  testing::ExpectTheAcceleratorIsLearned(agents::RunSearch(spec));
}

INSTANTIATE_TEST_SUITE_P(
    Variants, PlannerTest,
    ::testing::Values(Variant{"Hierarchical", "hierarchical", {{"learning_rate", "0.003"}}},
                      Variant{"RandomGrouper", "hierarchical", {{"grouper", "random"}, {"groups", "12"}}},
                      Variant{"Simple", "hierarchical", {{"placer", "none"}}}, Variant{"ColocRl", "coloc_rl", {}},
                      Variant{"Rnn", "coloc_rl", {{"placer", "encoder"}}}),
    [](const auto& of) { return of.param.name; });

// The entropy weight changes from its first to its last value over the updates; the second value is close to the first.
TEST(PlannerScheduleTest, TheWeightOnEntropyFallsFromItsFirstValueToItsLast) {
  const auto entropies = [](const char* first, const char* last) {
    Rng rng(8);
    agents::SearchSpec spec =
        MakeSearch(testing::RandomDag(rng, {.num_ops = 8}), MakeCluster(3), "coloc_rl",
                   {{"hidden", "16"}, {"learning_rate", "0.01"}, {"entropy", first}, {"final_entropy", last}});
    spec.evaluations = 400;
    std::vector<double> of_episodes;
    for (const agents::EpisodeRecord& record : agents::RunSearch(spec).episodes) of_episodes.push_back(record.entropy);
    return of_episodes;
  };
  const std::vector<double> held = entropies("5", "5");
  const std::vector<double> falling = entropies("5", "0");
  const std::vector<double> none = entropies("0", "0");
  ASSERT_EQ(held.size(), falling.size());
  EXPECT_EQ(held[0], falling[0]);
  EXPECT_EQ(held[0], none[0]);
  EXPECT_NE(held[1], falling[1]);
  EXPECT_LT(std::abs(held[1] - falling[1]), 0.1 * std::abs(held[1] - none[1]));
  EXPECT_LT(none[90], held[90]);
  EXPECT_LT(falling[90], held[90]);
}

TEST(PlannerFallbackTest, AnOpThatCannotRunOnItsGroupsDeviceGoesWhereItCan) {
  // "b" runs only on the CPU, but is in one group with "a", which is faster on the accelerator.
  OpSpec a = testing::MakeOp("a", 0);
  a.time_micros = std::nullopt;
  a.kind_times = {{"test-cpu", 100}, {"test-gpu", 10}};
  OpSpec b = testing::MakeOp("b", 0, {"a"});
  b.time_micros = std::nullopt;
  b.kind_times = {{"test-cpu", 5}};
  agents::SearchSpec spec = MakeSearch(testing::Build({a, b}), testing::MakeMixedCluster(1), "hierarchical",
                                       {{"groups", "1"}, {"hidden", "8"}});
  spec.evaluations = 40;
  const agents::SearchResult result = agents::RunSearch(spec);
  ASSERT_TRUE(result.best);
  EXPECT_EQ(Index((*result.best)[MakeId<OpId>(0)]), 1U);
  EXPECT_EQ(Index((*result.best)[MakeId<OpId>(1)]), 0U);
}

// First and last entropy of a policy for one op that fits only on the CPU, with a constant time there.
std::pair<double, double> EntropiesWhereOneDeviceIsTooSmall(const char* drop_invalid_after) {
  OpSpec op = testing::MakeOp("a", 50);
  op.persistent = Bytes{1000};
  agents::SearchSpec spec = MakeSearch(testing::Build({op}), testing::MakeMixedCluster(1, Bytes{10}), "coloc_rl",
                                       {{"hidden", "8"},
                                        {"placer", "encoder"},
                                        {"learning_rate", "0.01"},
                                        {"noise", "0"},
                                        {"drop_invalid_after", drop_invalid_after}});
  spec.evaluations = 401;
  const agents::SearchResult result = agents::RunSearch(spec);
  return {result.episodes.front().entropy, result.episodes.back().entropy};
}

TEST(PlannerInvalidTest, WhatDoesNotFitIsLearnedFromInTheFirstUpdatesOnly) {
  const auto [first, last] = EntropiesWhereOneDeviceIsTooSmall("1000");
  EXPECT_LT(last, 0.5 * first);
  // Placements that fit all have one reward: without the others there is nothing to learn.
  const auto [same, still] = EntropiesWhereOneDeviceIsTooSmall("0");
  EXPECT_NEAR(still, same, 1e-3);
}

// Entropies at the first and the last update of a policy with equal rewards: it learns only from the baseline B.
std::pair<double, double> EntropiesWithEqualRewards(OptionMap options) {
  options.merge(OptionMap{{"hidden", "8"}, {"placer", "encoder"}, {"samples", "1"}, {"noise", "0"}});
  options.merge(OptionMap{{"learning_rate", "0.01"}, {"final_learning_rate", "0.01"}});
  agents::SearchSpec spec = MakeSearch(testing::Build({testing::MakeOp("a", 50)}), MakeCluster(2), "coloc_rl", options);
  spec.evaluations = 401;
  const agents::SearchResult result = agents::RunSearch(spec);
  return {result.episodes.front().entropy, result.episodes.back().entropy};
}

TEST(PlannerBaselineTest, ItStartsAtTheFirstRewardsOrAtFailureAndFollowsAfterTheStep) {
  const auto [first, last] = EntropiesWithEqualRewards({});
  EXPECT_EQ(first, last);  // every advantage is 0
  // With a baseline of -10, every draw has a positive advantage. With a decay of 0 this ends after the first update,
  // which still uses the -10; with 1 it never ends.
  const auto at_failure = [](const char* decay) {
    return EntropiesWithEqualRewards({{"baseline_at_failure", "true"}, {"baseline_decay", decay}}).second;
  };
  const double over_at_once = at_failure("0");
  const double over_soon = at_failure("0.9");
  const double never_over = at_failure("1");
  EXPECT_NE(over_at_once, first);
  EXPECT_GT(over_at_once, 0.9);
  EXPECT_GT(over_at_once, over_soon);
  EXPECT_GT(over_soon, never_over);
  EXPECT_LT(never_over, 0.1);
}

TEST(PlannerUpdatesTest, AStepForEachRewardIsAnotherThanOneForAll) {
  const auto episodes = [](const char* samples, const char* step_per_reward) {
    Rng rng(8);
    agents::SearchSpec spec = MakeSearch(testing::RandomDag(rng, {.num_ops = 8}), MakeCluster(3), "coloc_rl",
                                         {{"hidden", "8"}, {"samples", samples}, {"step_per_reward", step_per_reward}});
    spec.evaluations = 41;
    return agents::RunSearch(spec).episodes;
  };
  EXPECT_EQ(episodes("1", "true"), episodes("1", "false"));
  // Drawn before the first update, then learned from in four steps or one.
  EXPECT_EQ(episodes("4", "true").front().mean_micros, episodes("4", "false").front().mean_micros);
  EXPECT_EQ(episodes("4", "true").front().entropy, episodes("4", "false").front().entropy);
  EXPECT_NE(episodes("4", "true"), episodes("4", "false"));
}

}  // namespace planner_test
}  // namespace emplace
