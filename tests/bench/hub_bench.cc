// Graphs in which one op has many neighbours: the time must grow linearly with their number, not quadratically.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>
#include <vector>

#include "agents/agent.h"
#include "sim/base/rng.h"
#include "sim/grouping.h"
#include "sim/simulator.h"
#include "tests/testing/graphs.h"
#include "tests/testing/problem.h"

namespace emplace::testing {
namespace {

std::string HubReader(std::size_t i) { return "op" + std::to_string(10'000'000 + i); }

// An op that reads the tensors of `num_producers` ops, of 1,000 to 10,000 bytes.
Graph FanIn(std::size_t num_producers) {
  GraphBuilder builder("fan_in");
  std::vector<std::string> inputs;
  for (std::size_t i = 0; i < num_producers; ++i) {
    inputs.push_back(HubReader(i));
    builder.Add(MakeOp(inputs.back(), 1, {}, {static_cast<std::int64_t>(1000 + i * 7919 % 9000)}));
  }
  builder.Add(MakeOp("sink", 5, inputs));
  return builder.Build();
}

// One tensor that `num_readers` ops read.
Graph FanOut(std::size_t num_readers) {
  GraphBuilder builder("fan_out");
  builder.Add(MakeOp("a", 5, {}, {1000}));
  for (std::size_t i = 0; i < num_readers; ++i) builder.Add(MakeOp(HubReader(i), 1, {"a"}));
  return builder.Build();
}

void MergeFanIn(benchmark::State& state) {
  const Graph graph = FanIn(static_cast<std::size_t>(state.range(0)));
  const GrouperEntry& grouper = FindGrouper("merge_and_colocate");
  for (auto _ : state) benchmark::DoNotOptimize(grouper.make(graph, {}).num_groups());
}

void PlaceFanOut(benchmark::State& state, const std::string& agent) {
  Problem problem(FanOut(static_cast<std::size_t>(state.range(0))), MakeCluster(4));
  for (auto _ : state) {
    Rng rng(1);
    benchmark::DoNotOptimize(
        agents::MakeAgent(agent, {}, {})->Propose(problem.env, agents::Mode::kExplore, rng).placements.size());
  }
}

BENCHMARK(MergeFanIn)->RangeMultiplier(2)->Range(5'000, 40'000)->Unit(benchmark::kMillisecond);
#define EMPLACE_HUB_BENCHMARK(agent)            \
  BENCHMARK_CAPTURE(PlaceFanOut, agent, #agent) \
      ->RangeMultiplier(10)                     \
      ->Range(10'000, 1'000'000)                \
      ->Unit(benchmark::kMillisecond)
EMPLACE_HUB_BENCHMARK(heft);
EMPLACE_HUB_BENCHMARK(m_etf);
EMPLACE_HUB_BENCHMARK(metis);
EMPLACE_HUB_BENCHMARK(scotch);
#undef EMPLACE_HUB_BENCHMARK

}  // namespace
}  // namespace emplace::testing
