// Times an update of a learned agent: proposing its placements and learning from them, without their simulation.
// docs/benchmarks.md has the figures and explains them.

#include <benchmark/benchmark.h>

#include <map>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "agents/agent.h"
#include "agents/environment.h"
#include "agents/nn/graph_transformer.h"
#include "agents/rl/sgdp/node_policy.h"
#include "sim/grouping.h"
#include "sim/simulator.h"
#include "tests/bench/bench_graphs.h"

namespace emplace::testing {
namespace {

constexpr std::size_t kLearnedDevices = 4;

// A layered graph of `num_ops` ops or an NMT graph of about as many, each op a group of its own, or all in at most
// `groups`.
struct World {
  World(std::size_t num_ops, std::size_t groups, bool nmt)
      : problem(MakeBenchProblem(nmt ? NmtGraph(num_ops) : LayeredGraph(num_ops), kLearnedDevices)),
        simulator(problem.graph, problem.cluster, problem.costs, {.peak_memory = true}),
        env(problem.graph, problem.cluster, problem.costs,
            FindGrouper(groups > 0 ? "merge_and_colocate" : "identity").make(problem.graph, {.max_groups = groups}),
            simulator) {}
  BenchProblem problem;
  Simulator simulator;
  agents::Environment env;
};

World& WorldOf(std::size_t num_ops, std::size_t groups = 0, bool nmt = false) {
  static std::map<std::tuple<std::size_t, std::size_t, bool>, std::unique_ptr<World>> worlds;
  std::unique_ptr<World>& world = worlds[{num_ops, groups, nmt}];
  if (!world) world = std::make_unique<World>(num_ops, groups, nmt);
  return *world;
}

void Update(benchmark::State& state, const std::string& name, const OptionMap& options, std::size_t groups = 0,
            bool nmt = false) {
  World& world = WorldOf(static_cast<std::size_t>(state.range(0)), groups, nmt);
  const std::unique_ptr<agents::Agent> agent = agents::MakeAgent(name, options, {.evaluations = 1'000'000});
  Rng rng(1);
  // The first update draws weights and loads libraries.
  std::vector<Placement> batch = agent->Propose(world.env, agents::Mode::kExplore, rng).placements;
  agent->Observe(world.env, batch, world.env.Evaluate(batch));
  std::size_t placements = 0;
  for (auto _ : state) {
    batch = agent->Propose(world.env, agents::Mode::kExplore, rng).placements;
    state.PauseTiming();
    const std::vector<agents::Outcome> outcomes = world.env.Evaluate(batch);
    state.ResumeTiming();
    agent->Observe(world.env, batch, outcomes);
    placements += batch.size();
  }
  state.counters["groups"] = static_cast<double>(world.env.observation().num_groups());
  state.counters["placements"] = static_cast<double>(placements) / static_cast<double>(state.iterations());
}

// SGDP's forward pass, whose time should grow linearly with the number of ops, not quadratically.
void SgdpForward(benchmark::State& state) {
  World& world = WorldOf(static_cast<std::size_t>(state.range(0)));
  agents::GraphTransformerOptions options;
  options.numbers = agents::kNodeNumbers;
  options.num_kinds = agents::NumKinds();
  options.outputs = kLearnedDevices;
  agents::ParameterSet parameters = agents::GraphTransformerParameters(options);
  Rng rng(1);
  agents::InitializeGraphTransformer(rng, &parameters);
  const auto network = agents::MakeGraphTransformer(options, parameters, "cpu");
  const agents::GraphRows rows = agents::RowsOf(world.env, agents::DescribeNodes(world.env), options.neighbours);
  network->Forward(rows, false);
  for (auto _ : state) {
    float first = network->Forward(rows, false).row(0)[0];
    benchmark::DoNotOptimize(first);
  }
}

BENCHMARK_CAPTURE(Update, post, "post", {})->Arg(300)->Arg(3'000)->Arg(10'000)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Update, hierarchical, "hierarchical", {})
    ->Arg(300)
    ->Arg(3'000)
    ->Arg(10'000)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Update, sgdp, "sgdp", {})->Arg(300)->Arg(3'000)->Arg(10'000)->Unit(benchmark::kMillisecond);
// No two ops of the layered graph are alike, so that nothing is computed once for several. Most of NMT's are.
BENCHMARK_CAPTURE(Update, sgdp_nmt, "sgdp", {}, 0, true)
    ->Arg(3'000)
    ->Arg(10'000)
    ->Unit(benchmark::kMillisecond)
    ->Iterations(1);
BENCHMARK_CAPTURE(Update, sgdp_of_256_groups, "sgdp", {}, 256, true)->Arg(10'000)->Unit(benchmark::kMillisecond);
// Every group attends to every other, and its authors stay below 1,000 groups. So for many ops there is a run with 256
// groups.
BENCHMARK_CAPTURE(Update, coloc_rl, "coloc_rl", {})->Arg(300)->Arg(1'000)->Unit(benchmark::kMillisecond)->Iterations(2);
BENCHMARK_CAPTURE(Update, coloc_rl_of_256_groups, "coloc_rl", {}, 256)
    ->Arg(300)
    ->Arg(3'000)
    ->Arg(10'000)
    ->Unit(benchmark::kMillisecond)
    ->Iterations(4);
BENCHMARK_CAPTURE(Update, coloc_rl_of_64_groups, "coloc_rl", {}, 64)->Arg(3'000)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Update, coloc_rl_rnn_of_64_groups, "coloc_rl", (OptionMap{{"placer", "encoder"}}), 64)
    ->Arg(3'000)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Update, hierarchical_of_64_groups, "hierarchical", (OptionMap{{"groups", "64"}}))
    ->Arg(3'000)
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Update, coloc_rl_rnn, "coloc_rl", (OptionMap{{"placer", "encoder"}}))
    ->Arg(300)
    ->Arg(3'000)
    ->Arg(10'000)
    ->Unit(benchmark::kMillisecond);
BENCHMARK(SgdpForward)->Arg(3'000)->Arg(10'000)->Arg(30'000)->Arg(80'000)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace emplace::testing
