#include "agents/heuristics/multilevel_search.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "sim/simulator.h"
#include "tests/testing/graphs.h"
#include "tests/testing/searches.h"

namespace emplace::testing {
namespace {

agents::SearchResult Placed(const Graph& graph, const Cluster& cluster, std::size_t evaluations,
                            std::uint64_t seed = 1) {
  agents::SearchSpec spec = MakeSearch(graph, cluster, "multilevel_search");
  spec.evaluations = evaluations;
  spec.seed = seed;
  return agents::RunSearch(spec);
}

TEST(MultilevelSearchTest, FindsTheOptimumOfSmallGraphs) {
  Rng rng(21);
  for (int i = 0; i < 20; ++i) {
    const Graph graph = RandomDag(rng, {.num_ops = 9});
    const Cluster cluster = MakeCluster(2);
    EXPECT_EQ(Placed(graph, cluster, 1000).best_result.step_time_micros, FastestOfAll(graph, cluster)) << i;
  }
}

TEST(MultilevelSearchTest, IsNeverSlowerThanAnyOneShotAgent) {
  Rng rng(22);
  for (int i = 0; i < 5; ++i) {
    const Graph graph = RandomDag(rng, {.num_ops = 200, .kinds_differ = true, .colocated = true});
    const Cluster cluster = MakeMixedCluster(3);
    const double micros = Placed(graph, cluster, 9).best_result.step_time_micros;
    for (const char* const agent : {"single_device", "heft", "m_etf", "expert", "metis", "m_sct", "scotch", "blocks"}) {
      agents::SearchSpec spec = MakeSearch(graph, cluster, agent);
      spec.evaluations = 1;
      EXPECT_LE(micros, agents::RunSearch(spec).best_result.step_time_micros) << agent;
    }
  }
}

TEST(MultilevelSearchTest, ImprovesOnItsStarts) {
  Rng rng(23);
  const Graph graph = RandomDag(rng, {.num_ops = 600, .max_kilobytes = 8});
  const Cluster cluster = MakeCluster(4);
  const double starts = Placed(graph, cluster, 25).best_result.step_time_micros;
  const double searched = Placed(graph, cluster, 1500).best_result.step_time_micros;
  EXPECT_LT(searched, 0.97 * starts);
  agents::SearchSpec spec = MakeSearch(graph, cluster, "annealing");
  spec.evaluations = 1500;
  EXPECT_LT(searched, agents::RunSearch(spec).best_result.step_time_micros);
}

// Ops of 30 bytes on devices of 100 that no one-shot agent can know about: outputs stay until the last op reads them.
TEST(MultilevelSearchTest, UnloadsDevicesUntilThePlacementFits) {
  std::vector<OpSpec> specs;
  std::vector<std::string> all;
  for (int i = 0; i < 12; ++i) {
    const std::string name = "a" + std::to_string(i);
    OpSpec op = MakeOp(name, 1, {}, {0});
    op.persistent = Bytes{30};
    specs.push_back(op);
    all.push_back(name);
  }
  specs.push_back(MakeOp("last", 1, all));
  const Graph graph = Build(specs);
  const Cluster cluster = MakeCluster(4, {.bandwidth_gb_per_s = 1, .latency_micros = 0, .gap_micros = 0}, 0, Bytes{90});
  const agents::SearchResult result = Placed(graph, cluster, 2000);
  ASSERT_TRUE(result.best.has_value());
  EXPECT_TRUE(result.best_result.fits_memory);
}

// With a race and a refinement, which the contract's small graph does not have.
TEST(MultilevelSearchTest, SavedInARaceItGoesOnAsIfNeverStopped) {
  Rng graph_rng(24);
  const Graph graph = RandomDag(graph_rng, {.num_ops = 300});
  const Cluster cluster = MakeCluster(3);
  const CostTable costs = MeasuredCosts(graph, cluster);
  const Simulator simulator(graph, cluster, costs, {.start_times = true});
  const auto rounds = [&](agents::Agent* agent, agents::Environment* env, Rng* rng, int n) {
    std::vector<Placement> proposed;
    for (int i = 0; i < n; ++i) {
      const std::vector<Placement> batch = agent->Propose(*env, agents::Mode::kExplore, *rng).placements;
      agent->Observe(*env, batch, env->Evaluate(batch));
      proposed.insert(proposed.end(), batch.begin(), batch.end());
    }
    return proposed;
  };
  agents::Environment env(graph, cluster, costs, FindGrouper("identity").make(graph, {}), simulator);
  const auto make = [] { return agents::MakeAgent("multilevel_search", {}, {.evaluations = 400}); };
  for (const int stop : {1, 10, 30, 60}) {
    const auto whole = make();
    Rng rng(3);
    rounds(whole.get(), &env, &rng, stop);
    std::stringstream saved;
    whole->Save(saved);
    Rng same = rng;
    const std::vector<Placement> expected = rounds(whole.get(), &env, &rng, 95 - stop);
    const auto loaded = make();
    loaded->Load(saved);
    EXPECT_EQ(rounds(loaded.get(), &env, &same, 95 - stop), expected) << "stopped after " << stop;
  }
}

TEST(MultilevelSearchTest, TheAnswerDoesNotDependOnThreads) {
  Rng rng(25);
  const Graph graph = RandomDag(rng, {.num_ops = 150});
  agents::SearchSpec spec = MakeSearch(graph, MakeCluster(3), "multilevel_search");
  spec.evaluations = 200;
  const agents::SearchResult alone = agents::RunSearch(spec);
  spec.threads = 3;
  const agents::SearchResult together = agents::RunSearch(spec);
  EXPECT_EQ(alone.best, together.best);
  EXPECT_EQ(alone.trace, together.trace);
}

TEST(MultilevelSearchTest, EndsWhereNothingCanMove) {
  EXPECT_EQ(Placed(MakeChain(5, 1, 4), MakeCluster(1), 100).evaluations, 1U);
}

TEST(MultilevelSearchTest, WorksWithTheOtherEngineAndRewards) {
  Rng rng(26);
  const Graph graph = RandomDag(rng, {.num_ops = 60, .memory = true});
  for (const char* const reward : {"runtime", "sqrt", "log_runtime", "log_memory_penalty"}) {
    agents::SearchSpec spec = MakeSearch(graph, MakeCluster(2), "multilevel_search");
    spec.engine = "placeto-reference";
    spec.reward = reward;
    spec.evaluations = 100;
    const agents::SearchResult result = agents::RunSearch(spec);
    EXPECT_EQ(result.evaluations, 100U) << reward;
    EXPECT_LE(result.best_result.step_time_micros, result.single_device_micros) << reward;
  }
}

}  // namespace
}  // namespace emplace::testing
