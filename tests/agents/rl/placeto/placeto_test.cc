#include "agents/rl/placeto/placeto.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>
#include <utility>

#include "agents/rl/policy_file.h"
#include "sim/base/check.h"
#include "sim/simulator.h"
#include "tests/testing/errors.h"
#include "tests/testing/graphs.h"
#include "tests/testing/searches.h"

namespace emplace {
namespace {

using ::emplace::testing::MakeCluster;
using ::emplace::testing::MakeSearch;
using ::testing::HasSubstr;

// Two independent ops, ten times as fast on the accelerator as on the CPU, which is device 0.
Graph FasterOnTheSecond() {
  std::vector<OpSpec> ops;
  for (const char* const name : {"a", "b"}) {
    OpSpec op = testing::MakeOp(name, 0);
    op.time_micros = std::nullopt;
    op.kind_times = {{"test-cpu", 100}, {"test-gpu", 10}};
    ops.push_back(op);
  }
  return testing::Build(ops);
}

class PlacetoSignTest : public ::testing::TestWithParam<const char*> {};

// Runs 200 rounds; returns the share of the last 40 rounds' choices that are device 1.
double ShareOfTheFaster(const char* agent, bool thesis_sign) {
  const Graph graph = FasterOnTheSecond();
  const Cluster cluster = testing::MakeMixedCluster(1);
  const CostTable costs = testing::MeasuredCosts(graph, cluster);
  const Simulator simulator(graph, cluster, costs, {.start_times = true});
  agents::Environment env(graph, cluster, costs, FindGrouper("identity").make(graph, {}), simulator,
                          {.name = "log_runtime"});
  const auto learner = agents::MakeAgent(agent,
                                         {{"use_cpus", "true"},
                                          {"episodes", "200"},
                                          {"start", "random_each"},
                                          {"discount", "1"},
                                          {"entropy", "0.01"},
                                          {"learning_rate", "0.01"},
                                          {"final_learning_rate", "0.01"},
                                          {"final_evaluation", "false"},
                                          {"thesis_sign", thesis_sign ? "true" : "false"}},
                                         {.evaluations = 2000});
  Rng rng(1);
  std::size_t round = 0;
  double faster = 0;
  double all = 0;
  std::size_t step = 0;
  while (!learner->Finished()) {
    const std::vector<Placement> batch = learner->Propose(env, agents::Mode::kExplore, rng).placements;
    learner->Observe(env, batch, env.Evaluate(batch));
    // A round is a random start, then a step for each op.
    if (step++ == 0) continue;  // the first placement of the search
    const std::size_t in_round = (step - 2) % 3;
    if (in_round == 0) ++round;
    if (in_round == 0 || round <= 160) continue;
    faster += Index(batch[0][MakeId<OpId>(in_round - 1)]) == 1 ? 1 : 0;
    all += 1;
  }
  EXPECT_EQ(all, 80);
  return faster / all;
}

TEST_P(PlacetoSignTest, TheFasterDeviceIsLearned) { EXPECT_GT(ShareOfTheFaster(GetParam(), false), 0.9); }
TEST_P(PlacetoSignTest, WithTheThesissSignTheSlowerOneIs) { EXPECT_LT(ShareOfTheFaster(GetParam(), true), 0.1); }

INSTANTIATE_TEST_SUITE_P(Agents, PlacetoSignTest, ::testing::Values("placeto", "graphsage", "pgnn"));

TEST(PlacetoTest, FindsTheOptimumOfSixGroupsAndKeepsItUnderArgmax) {
  const Graph graph = testing::MakeTwoChains();
  const double optimum = testing::FastestOfAll(graph, MakeCluster(2));
  EXPECT_EQ(optimum, 90);  // three times 30
  for (const std::uint64_t seed : {1U, 2U, 3U}) {
    agents::SearchSpec spec = MakeSearch(graph, MakeCluster(2), "placeto",
                                         {{"start", "single_device"},
                                          {"discount", "1"},
                                          {"workers", "4"},
                                          {"entropy", "0.1"},
                                          {"learning_rate", "0.002"}});
    spec.episodes = 1600;  // 400 rounds of four workers
    spec.seed = seed;
    const agents::SearchResult result = agents::RunSearch(spec);
    EXPECT_EQ(result.best_result.step_time_micros, optimum) << seed;
    ASSERT_FALSE(result.episodes.empty());
    EXPECT_TRUE(result.episodes.back().argmax);
    EXPECT_EQ(result.episodes.back().final_micros, optimum) << seed;
  }
}

TEST(PlacetoTest, TheThesissProtocolHasFourEpisodesThatNeitherLearnNorCount) {
  Rng rng(3);
  agents::SearchSpec spec =
      MakeSearch(testing::RandomDag(rng, {.num_ops = 20}), MakeCluster(3), "placeto", {{"protocol", "thesis"}});
  spec.episodes = 20;
  const agents::SearchResult result = agents::RunSearch(spec);
  EXPECT_EQ(result.evaluations, 1 + 20 * 20U);
  ASSERT_EQ(result.episodes.size(), 20U);
  double best = result.start_micros;
  for (const agents::EpisodeRecord& episode : result.episodes) {
    EXPECT_EQ(episode.argmax, episode.episode % 5 == 0);
    EXPECT_EQ(episode.evaluations, 1 + 20 * (episode.episode + 1));
    EXPECT_GT(episode.entropy, 0);
    EXPECT_LE(episode.entropy, 1);
    if (!episode.argmax) best = std::min(best, episode.best_micros);
  }
  EXPECT_EQ(result.best_result.step_time_micros, best);
}

TEST(PlacetoTest, AnEpisodeOfTheThesisStartsFromTheBestSoFar) {
  Rng rng(4);
  const Graph graph = testing::RandomDag(rng, {.num_ops = 15});
  agents::SearchSpec spec = MakeSearch(graph, MakeCluster(3), "pgnn", {{"protocol", "thesis"}});
  spec.episodes = 20;
  const agents::SearchResult result = agents::RunSearch(spec);
  double best = result.start_micros;
  for (const agents::EpisodeRecord& episode : result.episodes) {
    // The placement before the first step counts as part of an episode.
    EXPECT_LE(episode.best_micros, best);
    if (!episode.argmax) best = std::min(best, episode.best_micros);
  }
}

TEST(PlacetoTest, WorkersPlaySideBySideAndLearnFromTheSum) {
  Rng rng(5);
  const Graph graph = testing::RandomDag(rng, {.num_ops = 12});
  agents::SearchSpec spec = MakeSearch(graph, MakeCluster(2), "placeto", {{"workers", "4"}, {"episodes", "5"}});
  spec.evaluations = 10'000;
  const agents::SearchResult result = agents::RunSearch(spec);
  // The start, four rounds of four episodes, one argmax episode.
  EXPECT_EQ(result.evaluations, 1U + 4 * 4 * 12 + 12);
  spec.threads = 2;
  EXPECT_EQ(agents::RunSearch(spec).best, result.best);
}

TEST(PlacetoTest, SeveralPassesPlaceEachGroupSeveralTimes) {
  Rng rng(6);
  agents::SearchSpec spec = MakeSearch(testing::RandomDag(rng, {.num_ops = 9}), MakeCluster(2), "placeto",
                                       {{"passes", "2"}, {"episodes", "3"}, {"order", "random"}});
  spec.evaluations = 10'000;
  EXPECT_EQ(agents::RunSearch(spec).evaluations, 1U + 3 * 2 * 9);
}

TEST(PlacetoTest, LearnsOnSeveralGraphsAndIsAppliedToAnother) {
  Rng rng(7);
  const auto problem = [&] { return MakeSearch(testing::RandomDag(rng, {.num_ops = 10}), MakeCluster(2), "").problem; };
  agents::SearchSpec spec = MakeSearch(testing::RandomDag(rng, {.num_ops = 8}), MakeCluster(2), "placeto");
  spec.also = {problem(), problem()};
  spec.transfer = {problem()};
  spec.episodes = 12;
  const agents::SearchResult result = agents::RunSearch(spec);
  EXPECT_EQ(result.evaluations, 1 + 12 * 8U);
  ASSERT_EQ(result.also.size(), 2U);
  EXPECT_EQ(result.also[1].evaluations, 1 + 12 * 10U);
  ASSERT_EQ(result.transfer.size(), 1U);
  EXPECT_EQ(result.transfer[0].evaluations, 1 + 10U);  // one argmax episode from the single device
  EXPECT_GT(result.transfer[0].final_micros, 0);
  EXPECT_EQ(result.transfer[0].single_device_micros, result.transfer[0].start_micros);
  EXPECT_FALSE(result.policy.empty());
  // With fine-tuning, a transfer graph gets as many episodes as the training graphs.
  spec.agent_options = {{"fine_tune", "true"}};
  const agents::SearchResult tuned = agents::RunSearch(spec);
  EXPECT_EQ(tuned.transfer[0].evaluations, 1 + 12 * 10U);
  EXPECT_EQ(tuned.transfer[0].episodes.size(), 12U);
}

TEST(PlacetoTest, AStoppedSearchOnSeveralGraphsGoesOnToTheSameResult) {
  Rng rng(8);
  agents::SearchSpec spec = MakeSearch(testing::RandomDag(rng, {.num_ops = 40}), MakeCluster(2), "graphsage");
  spec.also = {MakeSearch(testing::RandomDag(rng, {.num_ops = 30}), MakeCluster(2), "").problem};
  spec.episodes = 20;
  const agents::SearchResult uninterrupted = agents::RunSearch(spec);
  const agents::SearchResult resumed = testing::StoppedAndResumed(spec, "placeto_checkpoint", {600, 900, 1250});
  EXPECT_EQ(resumed.best, uninterrupted.best);
  EXPECT_EQ(resumed.policy, uninterrupted.policy);
  EXPECT_EQ(resumed.episodes, uninterrupted.episodes);
  EXPECT_EQ(resumed.also[0].trace, uninterrupted.also[0].trace);
}

TEST(PlacetoTest, APolicyOfAnotherAgentOrNumberOfDevicesIsRefused) {
  const Graph graph = testing::MakeTwoChains();
  agents::SearchSpec spec = MakeSearch(graph, MakeCluster(2), "placeto");
  spec.episodes = 2;
  const std::string file = ::testing::TempDir() + "/policy";
  std::ofstream(file, std::ios::binary) << agents::RunSearch(spec).policy;
  spec.policy = file;
  EXPECT_EQ(agents::RunSearch(spec).evaluations, 1U + 6);  // applied without training: the start and one argmax episode
  const auto refusal = [&] {
    try {
      agents::RunSearch(spec);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string("accepted");
  };
  spec.agent = "graphsage";
  EXPECT_EQ(refusal(), file + ": is a policy of agent placeto (graphsage)");
  spec.agent = "placeto";
  spec.agent_options = {{"rounds", "4"}};
  EXPECT_THAT(refusal(), HasSubstr(file + ": is a policy trained with other options: "));
  spec.agent_options = {};
  spec.problem = MakeSearch(graph, MakeCluster(3), "").problem;
  EXPECT_THAT(refusal(), HasSubstr("policy: is for 2 devices"));
}

TEST(PlacetoTest, ThePoliciesOfAgentsThatDoNotLearnAreRefused) {
  agents::SearchSpec spec = MakeSearch(testing::MakeTwoChains(), MakeCluster(2), "annealing");
  spec.evaluations = 10;
  spec.transfer = {spec.problem};
  EXPECT_THROW(agents::RunSearch(spec), InputError);
}

TEST(PlacetoTest, AnAppliedPolicyLearnsNothingAndOneThatIsFineTunedDoes) {
  agents::SearchSpec spec = MakeSearch(testing::MakeTwoChains(), MakeCluster(2), "placeto");
  spec.episodes = 5;
  const std::string policy = agents::RunSearch(spec).policy;
  const std::string file = ::testing::TempDir() + "/applied_policy";
  std::ofstream(file, std::ios::binary) << policy;
  spec.policy = file;
  EXPECT_EQ(agents::RunSearch(spec).policy, policy);
  // The argmax episode of an applied policy counts, even if argmax episodes do not count during training.
  spec.agent_options = {{"evaluation_counts", "false"}};
  const agents::SearchResult applied = agents::RunSearch(spec);
  ASSERT_EQ(applied.episodes.size(), 1U);
  EXPECT_EQ(applied.best_result.step_time_micros, std::min(applied.start_micros, applied.episodes[0].best_micros));
  spec.agent_options = {{"fine_tune", "true"}};
  const agents::SearchResult tuned = agents::RunSearch(spec);
  EXPECT_NE(tuned.policy, policy);
  EXPECT_EQ(tuned.episodes.size(), 5U);
}

TEST(PlacetoTest, WithoutTrainingTheWeightsStayAsDrawn) {
  agents::SearchSpec spec = MakeSearch(testing::MakeTwoChains(), MakeCluster(2), "placeto", {{"train", "false"}});
  spec.episodes = 1;
  const std::string drawn = agents::RunSearch(spec).policy;
  spec.episodes = 9;
  EXPECT_EQ(agents::RunSearch(spec).policy, drawn);
  spec.agent_options = {};
  EXPECT_NE(agents::RunSearch(spec).policy, drawn);
}

TEST(PlacetoTest, ASmallLastLayerStartsNearUniform) {
  Rng rng(9);
  const Graph graph = testing::RandomDag(rng, {.num_ops = 30});
  const auto first_entropy = [&](const char* scale) {
    agents::SearchSpec spec =
        MakeSearch(graph, MakeCluster(3), "placeto", {{"output_scale", scale}, {"train", "false"}});
    spec.episodes = 2;
    return agents::RunSearch(spec).episodes.at(0).entropy;
  };
  EXPECT_GT(first_entropy("0.0001"), 0.9999);
  EXPECT_LT(first_entropy("1"), 0.999);
}

TEST(PlacetoTest, ABudgetThatIsTooSmallIsRefusedBeforeTheNetworkIsMadeLengthy) {
  // On 1,100 devices a network of placeto would exceed the limit of weights, and would be refused.
  const Graph graph = testing::MakeTwoChains();
  const Cluster cluster = MakeCluster(1100);
  for (const char* const agent : {"placeto", "graphsage", "pgnn"}) {
    const auto learner = agents::MakeAgent(agent, {}, {.evaluations = 3});
    const CostTable costs = testing::MeasuredCosts(graph, cluster);
    const Simulator simulator(graph, cluster, costs);
    agents::Environment env(graph, cluster, costs, FindGrouper("identity").make(graph, {}), simulator);
    Rng rng(1);
    EXPECT_THAT(testing::ErrorOf([&] { learner->Propose(env, agents::Mode::kExplore, rng); }),
                ::testing::StartsWith(std::string(agent) + ": 3 evaluations end within the first episode"));
  }
}

TEST(PlacetoTest, ANetworkForVeryManyDevicesIsRefusedNotBuiltLengthy) {
  // The layers are as wide as the features, one for each device and a few more. The largest two have 64 (2 * 1,100)^2
  // weights.
  const Graph graph = testing::MakeTwoChains();
  const Cluster cluster = MakeCluster(1100);
  const CostTable costs = testing::MeasuredCosts(graph, cluster);
  const Simulator simulator(graph, cluster, costs);
  agents::Environment env(graph, cluster, costs, FindGrouper("identity").make(graph, {}), simulator);
  const auto learner = agents::MakeAgent("placeto", {}, {.evaluations = 1000});
  Rng rng(1);
  EXPECT_EQ(testing::ErrorOf([&] { learner->Propose(env, agents::Mode::kExplore, rng); }),
            "policy: would have more than 268435456 weights (fewer devices or smaller layers)");
}

TEST(PlacetoTest, ABudgetThatEndsInTheFirstEpisodeIsRefused) {
  agents::SearchSpec spec = MakeSearch(testing::MakeTwoChains(), MakeCluster(2), "placeto", {{"workers", "2"}});
  spec.evaluations = 12;
  try {
    agents::RunSearch(spec);
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(),
                 "placeto: 12 evaluations end within the first episode (at least 13: 1 + groups * passes * workers)");
  }
  spec.evaluations = 0;
  spec.episodes = 1;  // one worker
  EXPECT_THROW(agents::RunSearch(spec), InputError);
  spec.episodes = 2;
  EXPECT_EQ(agents::RunSearch(spec).episodes.size(), 1U);
}

TEST(PlacetoTest, StartsOfTheirOwnAreTakenFromTheBudgetAndLeaveRoomForTheArgmax) {
  agents::SearchSpec spec = MakeSearch(testing::MakeTwoChains(), MakeCluster(2), "placeto", {{"start", "random_each"}});
  spec.episodes = 6;  // 36 evaluations: five rounds of a start and six groups
  const agents::SearchResult result = agents::RunSearch(spec);
  ASSERT_EQ(result.episodes.size(), 5U);
  EXPECT_TRUE(result.episodes.back().argmax);
  EXPECT_LE(result.evaluations, 37U);
}

TEST(PlacetoTest, APolicyThatIsCutShortIsBroken) {
  agents::SearchSpec spec = MakeSearch(testing::MakeTwoChains(), MakeCluster(2), "placeto");
  spec.episodes = 2;
  const std::string policy = agents::RunSearch(spec).policy;
  const std::string file = ::testing::TempDir() + "/broken_policy";
  spec.policy = file;
  const auto refusal = [&](const std::string& text) {
    std::ofstream(file, std::ios::binary) << text;
    return testing::ErrorOf([&] { agents::RunSearch(spec); });
  };
  EXPECT_EQ(refusal(policy.substr(0, policy.size() / 2)),
            file + ": is broken or of another program (expected other content for its checksum)");
  std::istringstream in(policy);
  const std::string body = agents::ReadPolicy(in, "placeto");
  const std::string head = "2 ";
  ASSERT_EQ(body.rfind(head, 0), 0U);
  const auto sealed = [](const std::string& content) {
    std::ostringstream out;
    agents::WritePolicy(out, "placeto", content);
    return std::move(out).str();
  };
  EXPECT_THAT(refusal(sealed("3000 " + body.substr(head.size()))),
              HasSubstr(file + ": is broken: a policy of 3000 devices"));
  EXPECT_EQ(refusal(sealed(body.substr(0, body.size() / 2))),
            file + ": is broken or of another program (expected weights)");
}

// Flips every bit of the first line, then bits at a prime distance, which covers every position in a byte.
TEST(PlacetoTest, NoBitOfAPolicyFlipsUnseen) {
  agents::SearchSpec spec = MakeSearch(testing::MakeTwoChainsOfKinds(), MakeCluster(2), "placeto", {{"episodes", "1"}});
  spec.episodes = 1;
  const std::string policy = agents::RunSearch(spec).policy;
  const auto agent = agents::MakeAgent("placeto", {{"episodes", "1"}}, {});
  const auto accepted = [&agent](const std::string& text) {
    std::istringstream in(text);
    return testing::ErrorOf([&] { agent->LoadPolicy(in); }) == "(no error)";
  };
  ASSERT_TRUE(accepted(policy));
  std::size_t flips = 0;
  for (std::size_t bit = 0; bit < 8 * policy.size(); bit += bit < 400 ? 1 : 7919) {
    std::string flipped = policy;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_FALSE(accepted(flipped)) << bit;
    ++flips;
  }
  EXPECT_GT(flips, 450U);
}

TEST(PlacetoTest, AGraphWhoseBudgetEndsWithinAnEpisodeDoesNotHoldUpTheOthers) {
  Rng rng(10);
  agents::SearchSpec spec =
      MakeSearch(testing::RandomDag(rng, {.num_ops = 30}), MakeCluster(2), "placeto", {{"episodes", "20"}});
  spec.also = {MakeSearch(testing::RandomDag(rng, {.num_ops = 10}), MakeCluster(2), "").problem};
  spec.evaluations = 100;  // three and a bit episodes of the first, nine of the second
  const agents::SearchResult result = agents::RunSearch(spec);
  EXPECT_EQ(result.evaluations, 100U);
  EXPECT_EQ(result.episodes.size(), 3U);
  EXPECT_EQ(result.also[0].evaluations, 100U);
  EXPECT_EQ(result.also[0].episodes.size(), 9U);
}

}  // namespace
}  // namespace emplace
