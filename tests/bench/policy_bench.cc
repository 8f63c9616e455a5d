// Times a policy's step of an episode, its update, and the simulation that each step needs. README.md beside this file
// has the figures and explains them.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agents/environment.h"
#include "agents/nn/autograd.h"
#include "agents/nn/kernel.h"
#include "agents/nn/network.h"
#include "agents/rl/placeto/learner.h"
#include "agents/search.h"
#include "sim/grouping.h"
#include "sim/simulator.h"
#include "tests/bench/bench_graphs.h"

namespace emplace::testing {
namespace {

constexpr std::size_t kGroups = 300;
constexpr std::size_t kDevices = 5;
constexpr std::size_t kFeatures = 5 + kDevices;

// About 4,000 ops of the NMT graph in 300 groups, on devices without a memory limit, as in the thesis's experiment.
const BenchProblem& Problem() {
  static const BenchProblem problem = [] {
    BenchProblem made = MakeBenchProblem(NmtGraph(4000), kDevices);
    made.cluster = made.cluster.WithoutMemoryLimits();
    return made;
  }();
  return problem;
}

const Grouping& Groups() {
  static const Grouping grouping = FindGrouper("merge_and_colocate").make(Problem().graph, {.max_groups = kGroups});
  return grouping;
}

agents::NetworkOptions OptionsOf(const std::string& name) {
  agents::NetworkOptions options{.features = kFeatures, .num_devices = kDevices};
  if (name.starts_with("placeto")) options.rounds = name.ends_with("rounds") ? 8 : 0;
  if (name.starts_with("graphsage")) options.embedding = agents::Embedding::kGraphSage;
  if (name.starts_with("pgnn")) options.embedding = agents::Embedding::kPGnn;
  options.thesis_code = name.ends_with("code");
  options.sage.both_directions = !options.thesis_code;
  options.sum_head = name == "graphsage_code";
  return options;
}

// A random episode with the inputs to replay each of its steps.
struct PolicyProblem {
  explicit PolicyProblem(const std::string& name)
      : costs(Problem().costs),
        simulator(Problem().graph, Problem().cluster, costs, {.engine = "placeto-reference", .start_times = true}),
        env(Problem().graph, Problem().cluster, costs, Groups(), simulator),
        view(env.observation(), {}),
        learner(OptionsOf(name), false, "cpu") {
    Rng rng(1);
    learner.network().parameters().InitializeGlorot(rng);
    learner.network().Pack();
    sample = learner.network().encoder().Draw(view.topology, rng);
    const std::size_t nodes = view.topology.num_nodes();
    view.allowed.assign(nodes, std::vector<std::uint8_t>(kDevices, 1));
    episode.start = Placement(nodes);
    for (std::size_t n = 0; n < nodes; ++n) {
      std::vector<double> starts(nodes);
      for (double& start : starts) start = 1e5 * rng.Uniform();
      episode.steps.push_back({.group = static_cast<std::uint32_t>(n),
                               .device = MakeId<DeviceId>(rng.Below(kDevices)),
                               .starts = starts,
                               .peaks = {},
                               .step_micros = 1e5,
                               .seed = rng.Next()});
      advantages.push_back(rng.Uniform() - 0.5);
    }
    states.topology = &view.topology;
    states.sample = &sample;
    states.features.Reset(nodes, kFeatures);
    states.currents = {0};
    states.seeds = {1};
    agents::PlacementState state{.placement = episode.start,
                                 .done = std::vector<std::uint32_t>(nodes),
                                 .starts = episode.steps[0].starts,
                                 .peaks = {},
                                 .step_micros = 1e5};
    view.features.Fill(state, 0, [&](std::size_t n) { return states.features.row(n); });
  }
  CostTable costs;
  Simulator simulator;
  agents::Environment env;
  agents::GraphView view;
  agents::Learner learner;
  agents::GraphSample sample;
  agents::Episode episode;
  std::vector<double> advantages;
  agents::StateBatch states;
};

PolicyProblem& Made(const std::string& name) {
  static std::map<std::string, std::unique_ptr<PolicyProblem>> made;
  auto& problem = made[name];
  if (!problem) problem = std::make_unique<PolicyProblem>(name);
  return *problem;
}

// Reports a benchmark's speed, also as a share of the product of two 512 x 512 matrices. LibTorch's BLAS computes that
// on one thread with the same instruction set, before and after the benchmark, since a machine's speed varies with its
// load.
class SpeedCounter {
 public:
  explicit SpeedCounter(benchmark::State& state) : state_(state) {}
  // `work`: multiply-adds of one iteration.
  void Count(double work) {
    const double peak = std::max(before_, agents::MatrixProductGflops(512));
    const double gflop = 2e-9 * work * static_cast<double>(state_.iterations());
    state_.counters["multiply_adds"] = work;
    state_.counters["gflop_per_s"] = benchmark::Counter(gflop, benchmark::Counter::kIsRate);
    state_.counters["blas_gflop_per_s"] = peak;
    state_.counters["share"] = benchmark::Counter(gflop / peak, benchmark::Counter::kIsRate);
  }

 private:
  benchmark::State& state_;
  double before_ = agents::MatrixProductGflops(512);
};

agents::Matrix RandomBenchMatrix(Rng& rng, std::size_t rows, std::size_t width) {
  agents::Matrix matrix(rows, width);
  for (std::size_t r = 0; r < rows; ++r) {
    for (float& value : matrix.values(r)) value = static_cast<float>(rng.Uniform() - 0.5);
  }
  return matrix;
}

// A layer with the given numbers of rows, inputs and outputs. An iteration is forward, or backward by input or by
// weights.
void Layer(benchmark::State& state) {
  const auto rows = static_cast<std::size_t>(state.range(0));
  const auto in = static_cast<std::size_t>(state.range(1));
  const auto out = static_cast<std::size_t>(state.range(2));
  Rng rng(1);
  const agents::Matrix x = RandomBenchMatrix(rng, rows, in);
  const agents::Matrix w = RandomBenchMatrix(rng, in, out);
  const agents::Matrix transposed = RandomBenchMatrix(rng, out, in);
  const agents::Matrix bias = RandomBenchMatrix(rng, 1, out);
  const agents::Matrix zeros(1, in);
  agents::Matrix y(rows, out);
  agents::Matrix dx(rows, in);
  agents::Matrix dw(in, out);
  SpeedCounter speed(state);
  for (auto _ : state) {
    agents::Affine(x.row(0), x.stride(), rows, in, w.row(0), bias.row(0), out, /*relu=*/true, y.row(0), y.stride());
    agents::MaskedAffine(y.row(0), y.stride(), rows, out, transposed.row(0), zeros.row(0), in, x.row(0), dx.row(0),
                         dx.stride());
    dw.Reset(in, out);
    agents::AddOuterProducts(x.row(0), x.stride(), y.row(0), y.stride(), rows, in, out, dw.row(0));
    benchmark::DoNotOptimize(dw.row(0)[0] + dx.row(0)[0]);
  }
  speed.Count(3 * static_cast<double>(rows * in * out));
}

// The matrix product of one step of an LSTM whose weights are in the second-level cache.
void LstmStep(benchmark::State& state) {
  constexpr std::size_t kRows = 4;
  constexpr std::size_t kWidth = 256;
  Rng rng(1);
  const agents::Matrix x = RandomBenchMatrix(rng, kRows, kWidth);
  const agents::PackedMatrix w(RandomBenchMatrix(rng, kWidth, 4 * kWidth).row(0), kWidth, 4 * kWidth);
  const agents::Matrix bias(1, 4 * kWidth);
  agents::Matrix y(kRows, 4 * kWidth);
  SpeedCounter speed(state);
  for (auto _ : state) {
    agents::Affine(x.row(0), x.stride(), kRows, w, bias.row(0), /*relu=*/false, y.row(0), y.stride());
    benchmark::DoNotOptimize(y.row(0)[0]);
  }
  speed.Count(static_cast<double>(kRows * kWidth * 4 * kWidth));
}

// One iteration is the forward pass of one step of an episode, as an agent samples it.
void Forward(benchmark::State& state, const std::string& name) {
  PolicyProblem& problem = Made(name);
  const auto nodes = static_cast<std::uint32_t>(problem.view.topology.num_nodes());
  SpeedCounter speed(state);
  for (auto _ : state) {
    problem.states.currents[0] = (problem.states.currents[0] + 1) % nodes;
    ++problem.states.seeds[0];
    float first = problem.learner.network().Forward(problem.states).row(0)[0];
    benchmark::DoNotOptimize(first);
  }
  speed.Count(agents::ForwardMultiplyAdds(problem.learner.network(), problem.view.topology, problem.sample));
}

// One iteration is the gradient of one episode, with all its steps replayed, and Adam.
void Update(benchmark::State& state, const std::string& name) {
  PolicyProblem& problem = Made(name);
  SpeedCounter speed(state);
  for (auto _ : state) {
    problem.learner.AddEpisode(problem.view, problem.sample, problem.episode, problem.advantages, 0.01, "bench");
    problem.learner.Update(1.25, 0);
  }
  // Forward, plus twice as much for backward.
  speed.Count(3 * static_cast<double>(problem.episode.steps.size()) *
              agents::ForwardMultiplyAdds(problem.learner.network(), problem.view.topology, problem.sample));
}

// One iteration simulates one placement of groups, as a step of an episode does.
void Simulate(benchmark::State& state) {
  PolicyProblem& problem = Made("placeto");
  Rng rng(3);
  std::vector<Placement> placements(kBenchPlacements, problem.episode.start);
  for (Placement& placement : placements) {
    for (std::size_t n = 0; n < placement.num_ops(); ++n) {
      placement[MakeId<OpId>(n)] = MakeId<DeviceId>(rng.Below(kDevices));
    }
  }
  std::size_t next = 0;
  for (auto _ : state) {
    const Placement* const placement = &placements[next++ % kBenchPlacements];
    benchmark::DoNotOptimize(problem.env.Evaluate({placement, 1}).front().reward);
  }
  state.counters["ops"] = static_cast<double>(Problem().graph.num_ops());
}

// One iteration is the thesis's protocol on one graph: 20 episodes, 16 updates, simulation included.
void TwentyEpisodes(benchmark::State& state, const std::string& agent, const OptionMap& options) {
  agents::SearchSpec spec{
      {},
      {.graph = Problem().graph, .cluster = Problem().cluster, .costs = Problem().costs, .given_grouping = Groups()}};
  spec.engine = "placeto-reference";
  spec.agent = agent;
  spec.agent_options = options;
  spec.episodes = 20;
  spec.reward = "log_runtime";
  double policy = 0;
  for (auto _ : state) {
    agents::SearchResult result = agents::RunSearch(spec);
    policy += result.times.policy;
    benchmark::DoNotOptimize(result.evaluations);
  }
  state.counters["groups"] = static_cast<double>(Groups().num_groups());
  state.counters["policy_s"] = policy / static_cast<double>(state.iterations());
}

BENCHMARK(Layer)
    ->ArgNames({"rows", "in", "out"})
    ->Args({300, 10, 10})
    ->Args({2400, 10, 10})
    ->Args({300, 20, 10})
    ->Args({300, 10, 20})
    ->Args({8, 40, 80})
    ->Args({8, 80, 40});
BENCHMARK(LstmStep);
BENCHMARK(Simulate)->Unit(benchmark::kMillisecond);
#define EMPLACE_POLICY_BENCH(name)                                        \
  BENCHMARK_CAPTURE(Forward, name, #name)->Unit(benchmark::kMillisecond); \
  BENCHMARK_CAPTURE(Update, name, #name)->Unit(benchmark::kMillisecond)
EMPLACE_POLICY_BENCH(placeto);
EMPLACE_POLICY_BENCH(placeto_rounds);
EMPLACE_POLICY_BENCH(graphsage_text);
EMPLACE_POLICY_BENCH(graphsage_code);
EMPLACE_POLICY_BENCH(pgnn_original);
EMPLACE_POLICY_BENCH(pgnn_code);
#define EMPLACE_THESIS_BENCH(agent)                                                                               \
  BENCHMARK_CAPTURE(TwentyEpisodes, agent, #agent, OptionMap{{"protocol", "thesis"}})                             \
      ->Unit(benchmark::kSecond)                                                                                  \
      ->Iterations(1);                                                                                            \
  BENCHMARK_CAPTURE(TwentyEpisodes, agent##_as_published, #agent,                                                 \
                    OptionMap{{"protocol", "thesis"}, {"thesis_sign", "true"}, {"start_feature", "peak_memory"}}) \
      ->Unit(benchmark::kSecond)                                                                                  \
      ->Iterations(1)
EMPLACE_THESIS_BENCH(placeto);
EMPLACE_THESIS_BENCH(graphsage);
EMPLACE_THESIS_BENCH(pgnn);

}  // namespace
}  // namespace emplace::testing
