// Times one simulated step, per op. README.md beside this file has the figures and explains them.

#include <benchmark/benchmark.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "sim/bounds.h"
#include "sim/simulator.h"
#include "tests/bench/bench_graphs.h"
#include "tests/bench/literal_port.h"
#include "tests/bench/topological_sweep.h"

namespace emplace::testing {
namespace {

// Problems are cached, since making the large ones takes seconds.
const BenchProblem& Layered(std::size_t num_ops, std::size_t devices) {
  static std::map<std::pair<std::size_t, std::size_t>, std::unique_ptr<BenchProblem>> made;
  auto& problem = made[{num_ops, devices}];
  if (!problem) problem = std::make_unique<BenchProblem>(MakeBenchProblem(LayeredGraph(num_ops), devices));
  return *problem;
}

const BenchProblem& Nmt(std::size_t num_ops, std::size_t devices) {
  static std::map<std::pair<std::size_t, std::size_t>, std::unique_ptr<BenchProblem>> made;
  auto& problem = made[{num_ops, devices}];
  if (!problem) problem = std::make_unique<BenchProblem>(MakeBenchProblem(NmtGraph(num_ops), devices));
  return *problem;
}

void ReportPerOp(benchmark::State& state, const BenchProblem& problem) {
  const auto ops = static_cast<double>(problem.graph.num_ops());
  std::size_t reads = 0;
  for (std::size_t i = 0; i < problem.graph.num_ops(); ++i) reads += problem.graph.inputs(MakeId<OpId>(i)).size();
  std::size_t transfers = 0;
  for (const DeviceLoad& load :
       ComputeLoads(problem.graph, problem.cluster, problem.costs, problem.placements.front())) {
    transfers += load.tensors_sent;
  }
  state.counters["ops"] = ops;
  state.counters["reads_per_op"] = static_cast<double>(reads) / ops;
  state.counters["transfers_per_op"] = static_cast<double>(transfers) / ops;
  state.counters["s_per_op"] = benchmark::Counter(static_cast<double>(state.iterations()) * ops,
                                                  benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

// One iteration simulates one placement; the placements alternate.
void RunEngine(benchmark::State& state, const BenchProblem& problem, const SimOptions& options) {
  const Simulator simulator(problem.graph, problem.cluster, problem.costs, options);
  const auto workspace = simulator.MakeWorkspace();
  StepResult result;
  std::size_t next = 0;
  for (auto _ : state) {
    simulator.Run(problem.placements[next++ % kBenchPlacements].devices(), *workspace, &result);
    benchmark::DoNotOptimize(result.step_time_micros);
  }
  ReportPerOp(state, problem);
}

// Times another simulator, or a part of one. Other is constructed from a problem and runs placements.
template <typename Other>
void RunOther(benchmark::State& state, const BenchProblem& problem) {
  Other other(problem.graph, problem.cluster, problem.costs);
  std::size_t next = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(other.Run(problem.placements[next++ % kBenchPlacements].devices()));
  }
  ReportPerOp(state, problem);
}

std::size_t Ops(const benchmark::State& state) { return static_cast<std::size_t>(state.range(0)); }
std::size_t Devices(const benchmark::State& state) { return static_cast<std::size_t>(state.range(1)); }

void FifoLayered(benchmark::State& state) {
  RunEngine(state, Layered(Ops(state), Devices(state)), {.peak_memory = false});
}
void FifoLayeredMemory(benchmark::State& state) { RunEngine(state, Layered(Ops(state), Devices(state)), {}); }
void FifoNmt(benchmark::State& state) { RunEngine(state, Nmt(Ops(state), Devices(state)), {.peak_memory = false}); }
void FifoNmtMemory(benchmark::State& state) { RunEngine(state, Nmt(Ops(state), Devices(state)), {}); }
void PlacetoLayered(benchmark::State& state) {
  RunEngine(state, Layered(Ops(state), Devices(state)), {.engine = "placeto-reference", .peak_memory = false});
}
void PlacetoNmt(benchmark::State& state) {
  RunEngine(state, Nmt(Ops(state), Devices(state)), {.engine = "placeto-reference", .peak_memory = false});
}
void LiteralLayered(benchmark::State& state) { RunOther<LiteralPort>(state, Layered(Ops(state), Devices(state))); }
void LiteralNmt(benchmark::State& state) { RunOther<LiteralPort>(state, Nmt(Ops(state), Devices(state))); }
void SweepLayered(benchmark::State& state) { RunOther<TopologicalSweep>(state, Layered(Ops(state), Devices(state))); }
void SweepNmt(benchmark::State& state) { RunOther<TopologicalSweep>(state, Nmt(Ops(state), Devices(state))); }
void SweepBacklogFan(benchmark::State& state) {
  static const BenchProblem problem = MakeBacklogFan(90'000);
  RunOther<TopologicalSweep>(state, problem);
}

void FifoBacklogFan(benchmark::State& state) {
  static const BenchProblem problem = MakeBacklogFan(90'000);
  RunEngine(state, problem, {.peak_memory = false});
}

// Each iteration simulates all placements, distributed over range(0) threads.
void FifoThreads(benchmark::State& state) {
  const BenchProblem& problem = Layered(10'000, 4);
  const Simulator simulator(problem.graph, problem.cluster, problem.costs, {.peak_memory = false});
  const auto threads = static_cast<std::size_t>(state.range(0));
  std::vector<std::unique_ptr<Simulator::Workspace>> workspaces;
  for (std::size_t i = 0; i < threads; ++i) workspaces.push_back(simulator.MakeWorkspace());
  for (auto _ : state) {
    std::vector<std::thread> workers;
    for (std::size_t i = 0; i < threads; ++i) {
      workers.emplace_back([&, i] {
        StepResult result;
        for (std::size_t p = i; p < kBenchPlacements; p += threads) {
          simulator.Run(problem.placements[p].devices(), *workspaces[i], &result);
        }
      });
    }
    for (std::thread& worker : workers) worker.join();
  }
  state.counters["s_per_op"] = benchmark::Counter(
      static_cast<double>(state.iterations()) * static_cast<double>(kBenchPlacements * problem.graph.num_ops()),
      benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

BENCHMARK(FifoLayered)->ArgsProduct({{10'000}, {2, 4, 8}})->Args({1'000, 4})->Args({50'000, 4})->Args({200'000, 4});
BENCHMARK(FifoLayeredMemory)->ArgsProduct({{10'000}, {2, 4, 8}});
BENCHMARK(FifoNmt)->ArgsProduct({{10'000}, {2, 4, 8}})->Args({1'000, 4})->Args({50'000, 4});
BENCHMARK(FifoNmtMemory)->ArgsProduct({{10'000}, {2, 4, 8}});
BENCHMARK(PlacetoLayered)->Args({10'000, 4});
BENCHMARK(PlacetoNmt)->Args({10'000, 4});
BENCHMARK(LiteralLayered)->Args({10'000, 4});
BENCHMARK(LiteralNmt)->Args({10'000, 4});
BENCHMARK(SweepLayered)->ArgsProduct({{10'000}, {2, 4, 8}})->Args({1'000, 4})->Args({50'000, 4})->Args({200'000, 4});
BENCHMARK(SweepNmt)->ArgsProduct({{10'000}, {2, 4, 8}})->Args({1'000, 4})->Args({50'000, 4});
BENCHMARK(SweepBacklogFan);
BENCHMARK(FifoBacklogFan);
BENCHMARK(FifoThreads)->Arg(1)->Arg(2)->UseRealTime();

}  // namespace
}  // namespace emplace::testing
