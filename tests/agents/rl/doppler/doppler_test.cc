#include "agents/rl/doppler/doppler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "agents/rl/doppler/partial_schedule.h"
#include "sim/base/check.h"
#include "sim/simulator.h"
#include "tests/testing/errors.h"
#include "tests/testing/graphs.h"
#include "tests/testing/observations.h"
#include "tests/testing/searches.h"

namespace emplace {
namespace doppler_test {

using ::emplace::testing::MakeCluster;
using ::emplace::testing::MakeSearch;
using ::testing::HasSubstr;

struct Variant {
  const char* name;
  OptionMap options;
};
std::ostream& operator<<(std::ostream& out, const Variant& variant) { return out << variant.name; }

class DopplerTest : public ::testing::TestWithParam<Variant> {
 protected:
  static agents::SearchSpec Trial(const Graph& graph, const Cluster& cluster, std::size_t evaluations) {
    OptionMap options = GetParam().options;
    options.insert({"use_cpus", "true"});
    agents::SearchSpec spec = MakeSearch(graph, cluster, "doppler", options);
    spec.evaluations = evaluations;
    return spec;
  }
};

TEST_P(DopplerTest, FindsTheOptimumOfSixGroupsAndKeepsItUnderArgmax) {
  const Graph graph = testing::MakeTwoChainsOfKinds();
  const double optimum = testing::FastestOfAll(graph, testing::MakeMixedCluster(1));
  const agents::SearchResult result = agents::RunSearch(Trial(graph, testing::MakeMixedCluster(1), 1001));
  EXPECT_EQ(result.evaluations, 1001U);
  EXPECT_EQ(result.best_result.step_time_micros, optimum);
  ASSERT_FALSE(result.episodes.empty());
  EXPECT_TRUE(result.episodes.back().argmax);
  EXPECT_EQ(result.episodes.back().final_micros, optimum);
}

TEST_P(DopplerTest, TheFasterDeviceIsLearned) {
  agents::SearchSpec spec = Trial(testing::MakeTwoOpsForTheAccelerator(), testing::MakeMixedCluster(1), 801);
  spec.agent_options["imitation_episodes"] = "0";
  testing::ExpectTheAcceleratorIsLearned(agents::RunSearch(spec));
}

TEST_P(DopplerTest, AStoppedSearchGoesOnToTheSameResult) {
  Rng rng(8);
  const agents::SearchSpec spec = Trial(testing::RandomDag(rng, {.num_ops = 8}), MakeCluster(3), 201);
  const agents::SearchResult uninterrupted = agents::RunSearch(spec);
  const agents::SearchResult resumed =
      testing::StoppedAndResumed(spec, std::string("doppler_checkpoint_") + GetParam().name, {1, 120});
  EXPECT_EQ(resumed.best, uninterrupted.best);
  EXPECT_EQ(resumed.policy, uninterrupted.policy);
  EXPECT_EQ(resumed.episodes, uninterrupted.episodes);
}

INSTANTIATE_TEST_SUITE_P(Variants, DopplerTest,
                         ::testing::Values(Variant{"Softmax", {}}, Variant{"Greedy", {{"sampling", "epsilon_greedy"}}},
                                           Variant{"Entropy", {{"entropy", "0.001"}, {"batch", "1"}}}),
                         [](const auto& of) { return of.param.name; });

TEST(DopplerSearchTest, TheSameSeedGivesTheSameResult) {
  Rng rng(9);
  agents::SearchSpec spec = MakeSearch(testing::RandomDag(rng, {.num_ops = 20}), MakeCluster(3), "doppler");
  spec.evaluations = 60;
  const agents::SearchResult first = agents::RunSearch(spec);
  EXPECT_EQ(agents::RunSearch(spec).policy, first.policy);
  spec.threads = 3;
  EXPECT_EQ(agents::RunSearch(spec).policy, first.policy);
  spec.seed = 2;
  EXPECT_NE(agents::RunSearch(spec).policy, first.policy);
}

// Stage I alone: the one evaluation is of the likeliest decisions, about as fast as the critical-path policy's.
TEST(DopplerSearchTest, ImitationAloneIsAsFastAsTheCriticalPathPolicy) {
  double teacher = 0;
  double learned = 0;
  for (const std::uint64_t seed : {1U, 2U, 3U, 4U}) {
    Rng rng(seed);
    const Graph graph = testing::RandomDag(rng, {.num_ops = 40, .max_micros = 40, .fractional = true});
    agents::SearchSpec spec = MakeSearch(graph, MakeCluster(3), "doppler");
    spec.evaluations = 1;
    learned += agents::RunSearch(spec).best_result.step_time_micros;
    const agents::Observation seen = testing::MakeObservation(graph, MakeCluster(3));
    const CostTable costs = testing::MeasuredCosts(graph, MakeCluster(3));
    const Placement placement = agents::PlaceByCriticalPath(seen, {seen, false});
    teacher += Simulator(graph, MakeCluster(3), costs).Run(placement).step_time_micros;
  }
  EXPECT_NEAR(learned / teacher, 1, 0.05);
}

TEST(DopplerSearchTest, EveryBudgetIsSpentExactly) {
  for (const std::size_t budget : {1U, 2U, 3U, 5U, 10U}) {
    agents::SearchSpec spec = MakeSearch(testing::MakeTwoChains(), MakeCluster(2), "doppler");
    spec.evaluations = budget;
    EXPECT_EQ(agents::RunSearch(spec).evaluations, budget);
  }
}

TEST(DopplerSearchTest, OnlyAllowedDevicesAreChosen) {
  Rng rng(10);
  const Graph graph = testing::RandomDag(rng, {.num_ops = 20, .kinds_differ = true});
  agents::SearchSpec spec = MakeSearch(graph, testing::MakeMixedCluster(2), "doppler");
  spec.evaluations = 30;
  const agents::SearchResult result = agents::RunSearch(spec);
  ASSERT_TRUE(result.best);
  EXPECT_TRUE(testing::IsAllowed(testing::MakeObservation(graph, testing::MakeMixedCluster(2)), *result.best));
}

// A chain whose persistent bytes and outputs only fit if the last op is on the other device, which the transfer makes
// slower.
TEST(DopplerSearchTest, PlacementsThatFitAreFound) {
  std::vector<OpSpec> ops;
  for (const char* const name : {"a", "b", "c"}) {
    ops.push_back(
        testing::MakeOp(name, 1, ops.empty() ? std::vector<std::string>{} : std::vector{ops.back().name}, {10'000}));
    ops.back().persistent = Bytes{60};
  }
  agents::SearchSpec spec = MakeSearch(
      testing::Build(ops),
      MakeCluster(2, {.bandwidth_gb_per_s = 1, .latency_micros = 0, .gap_micros = 0}, 0, Bytes{20'150}), "doppler");
  spec.evaluations = 20;
  const agents::SearchResult result = agents::RunSearch(spec);
  EXPECT_EQ(result.fitting, 20U);
}

TEST(DopplerPolicyTest, LearnsOnSeveralGraphsAndIsAppliedToAnother) {
  Rng rng(7);
  const auto problem = [&](std::size_t devices) {
    return MakeSearch(testing::RandomDag(rng, {.num_ops = 10}), MakeCluster(devices), "").problem;
  };
  agents::SearchSpec spec = MakeSearch(testing::RandomDag(rng, {.num_ops = 8}), MakeCluster(2), "doppler");
  spec.also = {problem(2), problem(2)};
  spec.transfer = {problem(2), problem(3)};
  spec.evaluations = 41;
  const agents::SearchResult result = agents::RunSearch(spec);
  EXPECT_EQ(result.evaluations, 41U);
  ASSERT_EQ(result.also.size(), 2U);
  EXPECT_EQ(result.also[1].evaluations, 41U);
  ASSERT_EQ(result.transfer.size(), 2U);
  EXPECT_EQ(result.transfer[0].evaluations, 1U);  // the likeliest decisions
  EXPECT_EQ(result.transfer[1].evaluations, 1U);  // with another number of devices
  EXPECT_FALSE(result.policy.empty());
}

// A loaded policy is not taught again: without learning it stays what it was.
TEST(DopplerPolicyTest, FineTuningStartsFromWhatWasLearned) {
  const Graph graph = testing::MakeTwoOpsForTheAccelerator();
  agents::SearchSpec spec = MakeSearch(graph, testing::MakeMixedCluster(1), "doppler",
                                       {{"use_cpus", "true"}, {"fine_tune", "true"}, {"imitation_episodes", "0"}});
  spec.evaluations = 801;
  spec.transfer = {MakeSearch(graph, testing::MakeMixedCluster(1), "").problem};
  const agents::SearchResult result = agents::RunSearch(spec);
  ASSERT_EQ(result.transfer.size(), 1U);
  const agents::GraphResult& tuned = result.transfer[0];
  EXPECT_EQ(tuned.evaluations, 801U);
  EXPECT_EQ(tuned.episodes.front().final_micros, 20);
  EXPECT_LT(tuned.episodes[1].entropy, result.episodes[1].entropy);
}

TEST(DopplerPolicyTest, APolicyOfOtherOptionsIsRefused) {
  agents::SearchSpec spec = MakeSearch(testing::MakeTwoChains(), MakeCluster(2), "doppler");
  spec.evaluations = 5;
  const std::string policy = agents::RunSearch(spec).policy;
  std::istringstream in(policy);
  EXPECT_THAT(testing::ErrorOf([&] {
                agents::MakeAgent("doppler", {{"width", "16"}}, {})->LoadPolicy(in);
              }),
              HasSubstr("is a policy trained with other options"));
  std::istringstream sgdp("emplace.policy 2 sgdp 2");
  EXPECT_EQ(testing::ErrorOf([&] { agents::MakeAgent("doppler", {}, {})->LoadPolicy(sgdp); }),
            "is a policy of agent sgdp (doppler)");
}

// The rate and the exploration of config_files/run_doppler in the authors' code.
TEST(DopplerOptionsTest, RateAndExplorationAreTheAuthors) {
  const agents::DopplerOptions options;
  EXPECT_EQ(options.imitation_rate, 1e-3);
  EXPECT_EQ(options.epsilon, 0.2);
}

}  // namespace doppler_test
}  // namespace emplace
