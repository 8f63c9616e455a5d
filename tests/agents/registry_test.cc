// The contract of agents/agent.h, for every agent.

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "agents/agent.h"
#include "agents/search.h"
#include "sim/base/check.h"
#include "sim/grouping.h"
#include "sim/simulator.h"
#include "tests/testing/graphs.h"
#include "tests/testing/searches.h"

namespace emplace {
namespace {

constexpr std::size_t kRounds = 12;

// A problem and its environment.
struct World {
  World(Graph g, Cluster c)
      : graph(std::move(g)),
        cluster(std::move(c)),
        costs(testing::MeasuredCosts(graph, cluster)),
        simulator(graph, cluster, costs, {.start_times = true}),
        env(graph, cluster, costs, FindGrouper("identity").make(graph, {}), simulator) {}
  Graph graph;
  Cluster cluster;
  CostTable costs;
  Simulator simulator;
  agents::Environment env;
};

Graph SomeGraph(std::uint64_t seed, std::size_t num_ops = 30, bool kinds_differ = true) {
  Rng rng(seed);
  return testing::RandomDag(rng, {.num_ops = num_ops, .kinds_differ = kinds_differ, .memory = true, .colocated = true});
}

// Proposes, checks, evaluates and observes; appends the proposals. Returns whether an episode is unfinished.
bool Rounds(agents::Agent& agent, World& world, Rng& rng, std::size_t rounds, std::vector<Placement>* proposed) {
  bool in_episode = false;
  for (std::size_t i = 0; i < rounds && !agent.Finished(); ++i) {
    const agents::Proposal proposal = agent.Propose(world.env, agents::Mode::kExplore, rng);
    const std::vector<Placement>& batch = proposal.placements;
    EXPECT_FALSE(batch.empty());
    for (const Placement& groups : batch) {
      EXPECT_EQ(groups.num_ops(), world.env.observation().num_groups());
      CheckPlacement(world.env.grouping().Expand(groups), world.graph, world.cluster, world.costs);
    }
    agent.Observe(world.env, batch, world.env.Evaluate(batch));
    proposed->insert(proposed->end(), batch.begin(), batch.end());
    in_episode = proposal.episode_continues;
  }
  return in_episode;
}

class AgentContractTest : public ::testing::TestWithParam<agents::AgentEntry> {
 protected:
  static std::unique_ptr<agents::Agent> Make() {
    return agents::MakeAgent(GetParam().name, SmallerThan(GetParam().name), {.evaluations = 200});
  }
  // Small networks: the contract does not depend on their size, and large ones take time.
  static OptionMap SmallerThan(std::string_view agent) {
    if (agent == "hierarchical" || agent == "coloc_rl") return {{"hidden", "8"}};
    if (agent == "sgdp") return {{"layers", "1"}, {"epochs", "1"}};
    return {};
  }
  static std::vector<Placement> Proposals(World& world, std::uint64_t seed, std::size_t rounds = kRounds) {
    const auto agent = Make();
    Rng rng(seed);
    std::vector<Placement> proposed;
    Rounds(*agent, world, rng, rounds, &proposed);
    return proposed;
  }
  static agents::SearchResult Search(const Graph& graph, const Cluster& cluster) {
    const std::string agent(GetParam().name);
    agents::SearchSpec spec = testing::MakeSearch(graph, cluster, agent, SmallerThan(agent));
    spec.evaluations = GetParam().searches() ? 40 : 1;
    return agents::RunSearch(spec);
  }
};

TEST_P(AgentContractTest, PlacementsFitGraphAndCluster) {
  World world(SomeGraph(101), testing::MakeMixedCluster(3));
  const std::vector<Placement> proposed = Proposals(world, 1);
  ASSERT_FALSE(proposed.empty());
  for (const Placement& groups : proposed) {
    const Placement ops = world.env.grouping().Expand(groups);
    for (std::size_t op = 0; op < world.graph.num_ops(); ++op) {
      EXPECT_TRUE(world.costs.Allowed(MakeId<OpId>(op), ops[MakeId<OpId>(op)]));
    }
  }
}

TEST_P(AgentContractTest, TheSameSeedGivesTheSameProposals) {
  World world(SomeGraph(102), testing::MakeMixedCluster(2));
  World again(SomeGraph(102), testing::MakeMixedCluster(2));
  EXPECT_EQ(Proposals(world, 7), Proposals(again, 7));
}

TEST_P(AgentContractTest, SavedAndLoadedItGoesOnAsIfNeverStopped) {
  World world(SomeGraph(103), testing::MakeMixedCluster(2));
  for (const std::size_t stop : {std::size_t{0}, std::size_t{1}, kRounds / 2}) {
    const auto first = Make();
    Rng rng(3);
    std::vector<Placement> proposed;
    std::size_t done = stop;
    bool in_episode = Rounds(*first, world, rng, stop, &proposed);
    for (; in_episode; ++done) in_episode = Rounds(*first, world, rng, 1, &proposed);
    std::stringstream saved;
    first->Save(saved);
    const auto second = Make();
    second->Load(saved);
    // A learning agent is saved between its episodes, and must have learned the same after loading.
    Rounds(*second, world, rng, 100 - done, &proposed);
    EXPECT_EQ(proposed, Proposals(world, 3, 100)) << "stopped after " << stop;
  }
}

TEST_P(AgentContractTest, FindsNothingWhereNothingFits) {
  const agents::SearchResult result = Search(SomeGraph(104), testing::MakeMixedCluster(2, Bytes{1}));
  EXPECT_GT(result.evaluations, 0U);
  EXPECT_EQ(result.fitting, 0U);
  EXPECT_EQ(result.best, std::nullopt);
}

TEST_P(AgentContractTest, PlacesEverythingOnTheOnlyDevice) {
  const Graph graph = testing::MakeChain(3, 1, 4);
  const agents::SearchResult result = Search(graph, testing::MakeMixedCluster(0));
  EXPECT_EQ(result.best, Placement(3));
  EXPECT_EQ(result.best_result.step_time_micros, 3);
}

TEST_P(AgentContractTest, PlacesAnEmptyGraph) {
  const agents::SearchResult result = Search(Graph(), testing::MakeMixedCluster(2));
  EXPECT_EQ(result.best, Placement(0));
  EXPECT_EQ(result.best_result.step_time_micros, 0);
}

TEST_P(AgentContractTest, WorksWhereGroupsMayGoToOneDeviceOnly) {
  GraphBuilder builder("g");
  for (const char* const name : {"a", "b", "c"}) {
    OpSpec spec = testing::MakeOp(name, 0);
    spec.time_micros = std::nullopt;
    spec.kind_times = {{"test-cpu", 1}};
    builder.Add(spec);
  }
  World world(builder.Build(), testing::MakeMixedCluster(2));
  for (const Placement& placement : Proposals(world, 1)) EXPECT_EQ(placement, Placement(3));
}

TEST_P(AgentContractTest, AnUnknownOptionIsRefused) {
  EXPECT_THROW(agents::MakeAgent(GetParam().name, {{"no_such_option", "1"}}, {}), InputError);
}

TEST_P(AgentContractTest, AnotherAgentsDataIsRefused) {
  std::stringstream saved("nonsense 1 2 3");
  EXPECT_THROW(Make()->Load(saved), InputError);
}

TEST_P(AgentContractTest, ItsRowIsComplete) {
  EXPECT_FALSE(GetParam().summary.empty());
  EXPECT_FALSE(GetParam().source.empty());
  EXPECT_GT(GetParam().default_evaluations, 0U);
  EXPECT_NO_THROW(FindGrouper(GetParam().grouping));
}

// The agents to test; those whose searches take seconds are lengthy.
std::vector<agents::AgentEntry> AgentEntries(bool lengthy) {
  std::vector<agents::AgentEntry> chosen;
  for (const agents::AgentEntry& agent : agents::AllAgents()) {
    if ((agent.name == "sgdp" || agent.name == "dp_contiguous") == lengthy) chosen.push_back(agent);
  }
  return chosen;
}
std::string NameOf(const ::testing::TestParamInfo<agents::AgentEntry>& row) { return std::string(row.param.name); }
INSTANTIATE_TEST_SUITE_P(Most, AgentContractTest, ::testing::ValuesIn(AgentEntries(false)), NameOf);
INSTANTIATE_TEST_SUITE_P(Lengthy, AgentContractTest, ::testing::ValuesIn(AgentEntries(true)), NameOf);

TEST(AgentRegistryTest, HoldsEveryHeuristicOfTheContract) {
  for (const char* const name : {"single_device", "cpu_only", "expert", "random", "round_robin", "blocks", "metis",
                                 "scotch", "m_topo", "m_etf", "m_sct", "heft", "dp_contiguous", "megatron",
                                 "multilevel_search", "local_search", "annealing", "random_walk"}) {
    EXPECT_EQ(agents::FindAgent(name).name, name);
  }
}

TEST(AgentRegistryTest, KnowsWhereAnAgentRunsAndWhetherItIsQuick) {
  EXPECT_FALSE(agents::RunsOn(agents::FindAgent("cpu_only"), testing::MakeCluster(2)));
  EXPECT_TRUE(agents::RunsOn(agents::FindAgent("cpu_only"), testing::MakeMixedCluster(2)));
  EXPECT_TRUE(agents::RunsOn(agents::FindAgent("heft"), testing::MakeCluster(2)));
  EXPECT_TRUE(agents::IsQuick(agents::FindAgent("heft"), 100'000));
  EXPECT_TRUE(agents::IsQuick(agents::FindAgent("m_sct"), 1000));
  EXPECT_FALSE(agents::IsQuick(agents::FindAgent("m_sct"), 1001));
}

TEST(AgentRegistryTest, AnUnknownNameIsRefusedWithTheKnownOnes) {
  try {
    agents::FindAgent("oracle");
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_EQ(std::string(error.what()).find("unknown agent \"oracle\" (single_device, cpu_only, "), 0U);
  }
}

}  // namespace
}  // namespace emplace
