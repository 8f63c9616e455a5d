// The time of multilevel_search besides the evaluations of its placements: the time that proposing and observing take
// as a share of the time that evaluating takes, on one thread. docs/benchmarks.md has the figures.

#include <benchmark/benchmark.h>

#include <chrono>
#include <memory>
#include <vector>

#include "agents/agent.h"
#include "agents/environment.h"
#include "experiments/library/instances.h"
#include "sim/grouping.h"
#include "sim/simulator.h"
#include "tests/bench/bench_graphs.h"

namespace emplace::testing {
namespace {

// The times of a search so far, in s.
struct Spent {
  double proposing = 0;
  double evaluating = 0;
};

Spent Round(agents::Environment& env, agents::Agent& agent, Rng& rng) {
  using Clock = std::chrono::steady_clock;
  const auto began = Clock::now();
  const std::vector<Placement> batch = agent.Propose(env, agents::Mode::kExplore, rng).placements;
  const auto proposed = Clock::now();
  const std::vector<agents::Outcome> outcomes = env.Evaluate(batch);
  const auto evaluated = Clock::now();
  agent.Observe(env, batch, outcomes);
  const auto observed = Clock::now();
  const auto seconds = [](Clock::duration d) { return std::chrono::duration<double>(d).count(); };
  return {.proposing = seconds(proposed - began) + seconds(observed - evaluated),
          .evaluating = seconds(evaluated - proposed)};
}

void Rounds(benchmark::State& state, const Graph& graph, const Cluster& cluster, const CostTable& costs) {
  const Simulator simulator(graph, cluster, costs, {.peak_memory = true, .start_times = true});
  agents::Environment env(graph, cluster, costs, ColocationClasses(graph), simulator);
  const auto agent = agents::MakeAgent("multilevel_search", {}, {.evaluations = 1'000'000});
  Rng rng(1);
  const Spent starts = Round(env, *agent, rng);
  Spent later;
  std::size_t rounds = 0;
  for (auto _ : state) {
    const Spent round = Round(env, *agent, rng);
    later.proposing += round.proposing;
    later.evaluating += round.evaluating;
    ++rounds;
  }
  state.counters["share_percent"] = 100 * later.proposing / later.evaluating;
  state.counters["starts_s"] = starts.proposing;  // levels and one-shot agents
  state.counters["evaluations_per_s"] = 4 * static_cast<double>(rounds) / (later.proposing + later.evaluating);
}

void Search(benchmark::State& state, Graph (*make)(std::size_t num_ops)) {
  const BenchProblem problem = MakeBenchProblem(make(static_cast<std::size_t>(state.range(0))), 4);
  Rounds(state, problem.graph, problem.cluster, problem.costs);
}

void SearchOfLibrary(benchmark::State& state, const char* instance) {
  const experiments::LibraryProblem problem = experiments::LoadFrozenInstance(experiments::FindInstance(instance));
  Rounds(state, problem.graph, problem.cluster, problem.costs);
}

BENCHMARK_CAPTURE(Search, layered, LayeredGraph)->Arg(1'000)->Arg(100'000)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(Search, nmt, NmtGraph)->Arg(1'000)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(SearchOfLibrary, nmt, "nmt-8-slices-p100-8")->Unit(benchmark::kMillisecond);  // 97,051 ops

}  // namespace
}  // namespace emplace::testing
