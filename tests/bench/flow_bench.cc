// Flows that share links: 1,000 in flight, each followed by another one over other links. An event is a flow that
// starts or ends. `nodes`: on 125 nodes whose 8 devices hang on a switch each, so that a change concerns 8 flows or so.
// `fabric`: 125 devices to a rack, racks behind one switch, every flow to another rack: a change concerns all.
// `BM_SimGrid`: the same flows by SimGrid, in a process of its own, as each process has one simulation. Of both the
// time counts that the flows take, without the links.

#include <benchmark/benchmark.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/check.h"
#include "sim/base/rng.h"
#include "tests/testing/simgrid_flows.h"

namespace emplace {
namespace {

constexpr std::size_t kChains = 1000;

struct Pattern {
  std::vector<double> bytes_per_ns;
  std::vector<testing::FlowChain> chains;
  std::size_t flows_of_each = 0;
};

void AddFlow(Rng& rng, std::vector<std::uint32_t> route, testing::FlowChain* chain) {
  chain->flows.push_back(
      {.route = std::move(route), .bytes = static_cast<std::int64_t>(1'000'000 + rng.Below(9'000'000))});
}

Pattern Nodes(std::size_t flows_of_each) {
  Pattern pattern{.bytes_per_ns = std::vector<double>(2 * kChains, 360), .chains = {}, .flows_of_each = flows_of_each};
  Rng rng(1);
  for (std::size_t i = 0; i < kChains; ++i) {
    testing::FlowChain& chain = pattern.chains.emplace_back();
    for (std::size_t k = 0; k < flows_of_each; ++k) {
      const std::size_t node = i / 8 * 8;
      AddFlow(rng, {static_cast<std::uint32_t>(2 * i), static_cast<std::uint32_t>(2 * (node + rng.Below(8)) + 1)},
              &chain);
    }
  }
  return pattern;
}

Pattern Fabric(std::size_t flows_of_each) {
  constexpr std::size_t kRack = 125;
  constexpr std::size_t kRacks = kChains / kRack;
  Pattern pattern{.bytes_per_ns = std::vector<double>(2 * kChains, 50), .chains = {}, .flows_of_each = flows_of_each};
  pattern.bytes_per_ns.resize(2 * kChains + 2 * kRacks, 1600);
  Rng rng(1);
  for (std::size_t i = 0; i < kChains; ++i) {
    testing::FlowChain& chain = pattern.chains.emplace_back();
    for (std::size_t k = 0; k < flows_of_each; ++k) {
      const std::size_t rack = (i / kRack + 1 + rng.Below(kRacks - 1)) % kRacks;
      const std::size_t to = rack * kRack + rng.Below(kRack);
      AddFlow(rng,
              {static_cast<std::uint32_t>(2 * i), static_cast<std::uint32_t>(2 * kChains + 2 * (i / kRack)),
               static_cast<std::uint32_t>(2 * kChains + 2 * rack + 1), static_cast<std::uint32_t>(2 * to + 1)},
              &chain);
    }
  }
  return pattern;
}

void Report(const Pattern& pattern, benchmark::State& state) {
  const auto events = 2 * kChains * pattern.flows_of_each;
  state.counters["events/s"] =
      benchmark::Counter(static_cast<double>(events * state.iterations()), benchmark::Counter::kIsRate);
}

void BM_Flows(benchmark::State& state, const Pattern& pattern) {
  for (auto _ : state) state.SetIterationTime(testing::SimulateChains(pattern.bytes_per_ns, pattern.chains).seconds);
  Report(pattern, state);
}

// Seconds that SimGrid takes, without its platform.
double SecondsOfSimGrid(const Pattern& pattern) {
  int ends[2];
  EMPLACE_CHECK_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    const double seconds = testing::SimulateBySimGrid(pattern.bytes_per_ns, pattern.chains).seconds;
    EMPLACE_CHECK_EQ(write(ends[1], &seconds, sizeof(seconds)), static_cast<ssize_t>(sizeof(seconds)));
    _exit(0);
  }
  double seconds = 0;
  EMPLACE_CHECK_EQ(read(ends[0], &seconds, sizeof(seconds)), static_cast<ssize_t>(sizeof(seconds)));
  waitpid(child, nullptr, 0);
  close(ends[0]);
  close(ends[1]);
  return seconds;
}

void BM_SimGrid(benchmark::State& state, const Pattern& pattern) {
  for (auto _ : state) state.SetIterationTime(SecondsOfSimGrid(pattern));
  Report(pattern, state);
}

BENCHMARK_CAPTURE(BM_Flows, nodes, Nodes(20))->Unit(benchmark::kMillisecond)->UseManualTime();
BENCHMARK_CAPTURE(BM_SimGrid, nodes, Nodes(20))->Unit(benchmark::kMillisecond)->UseManualTime()->Iterations(1);
BENCHMARK_CAPTURE(BM_Flows, fabric, Fabric(2))->Unit(benchmark::kMillisecond)->UseManualTime();
BENCHMARK_CAPTURE(BM_SimGrid, fabric, Fabric(2))->Unit(benchmark::kMillisecond)->UseManualTime()->Iterations(1);

}  // namespace
}  // namespace emplace
