// How long a policy takes for a step of an episode, and for an update, beside the simulation that each step needs. The
// figures and how to read them: README.md beside this file.

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "agents/environment.h"
#include "agents/nn/autograd.h"
#include "agents/nn/network.h"
#include "agents/rl/placeto/learner.h"
#include "experiments/trial.h"
#include "sim/grouping.h"
#include "sim/simulator.h"
#include "tests/bench/bench_graphs.h"

namespace emplace::testing {
namespace {

constexpr std::size_t kGroups = 300;
constexpr std::size_t kDevices = 5;
constexpr std::size_t kFeatures = 5 + kDevices;

// About 4,000 ops of the NMT graph in 300 groups, on devices without a limit, as in the thesis's experiment.
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

NetworkOptions OptionsOf(const std::string& name) {
  NetworkOptions options{.features = kFeatures, .num_devices = kDevices};
  if (name.starts_with("placeto")) options.rounds = name.ends_with("rounds") ? 8 : 0;
  if (name.starts_with("graphsage")) options.embedding = Embedding::kGraphSage;
  if (name.starts_with("pgnn")) options.embedding = Embedding::kPGnn;
  options.thesis_code = name.ends_with("code");
  options.sage.both_directions = !options.thesis_code;
  options.sum_head = name == "graphsage_code";
  return options;
}

// An episode as it might have been; every step of it can be seen again.
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
    PlacementState state{.placement = episode.start,
                         .done = std::vector<std::uint32_t>(nodes),
                         .starts = episode.steps[0].starts,
                         .peaks = {},
                         .step_micros = 1e5};
    view.features.Fill(state, 0, [&](std::size_t n) { return states.features.row(n); });
  }
  CostTable costs;
  Simulator simulator;
  Environment env;
  GraphView view;
  Learner learner;
  GraphSample sample;
  Episode episode;
  std::vector<double> advantages;
  StateBatch states;
};

PolicyProblem& Made(const std::string& name) {
  static std::map<std::string, std::unique_ptr<PolicyProblem>> made;
  auto& problem = made[name];
  if (!problem) problem = std::make_unique<PolicyProblem>(name);
  return *problem;
}

// One iteration is the forward pass of one step of an episode, as an agent samples it.
void Forward(benchmark::State& state, const std::string& name) {
  PolicyProblem& problem = Made(name);
  const auto nodes = static_cast<std::uint32_t>(problem.view.topology.num_nodes());
  for (auto _ : state) {
    problem.states.currents[0] = (problem.states.currents[0] + 1) % nodes;
    ++problem.states.seeds[0];
    benchmark::DoNotOptimize(problem.learner.network().Forward(problem.states).row(0)[0]);
  }
  const double work = ForwardMultiplyAdds(problem.learner.network(), problem.view.topology, problem.sample);
  state.counters["multiply_adds"] = work;
  state.counters["gflop_per_s"] =
      benchmark::Counter(2e-9 * work * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
}

// One iteration is the gradient of one episode, all its steps seen again, and Adam.
void Update(benchmark::State& state, const std::string& name) {
  PolicyProblem& problem = Made(name);
  for (auto _ : state) {
    problem.learner.AddEpisode(problem.view, problem.sample, problem.episode, problem.advantages, 0.01, "bench");
    problem.learner.Update(1.25, 0);
  }
  // Forward, and twice as much backward.
  const double work = 3 * static_cast<double>(problem.episode.steps.size()) *
                      ForwardMultiplyAdds(problem.learner.network(), problem.view.topology, problem.sample);
  state.counters["multiply_adds"] = work;
  state.counters["gflop_per_s"] =
      benchmark::Counter(2e-9 * work * static_cast<double>(state.iterations()), benchmark::Counter::kIsRate);
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
  TrialSpec spec{.problem = {.graph = Problem().graph,
                             .cluster = Problem().cluster,
                             .costs = Problem().costs,
                             .given_grouping = Groups()}};
  spec.engine = "placeto-reference";
  spec.agent = agent;
  spec.agent_options = options;
  spec.episodes = 20;
  spec.reward = "log_runtime";
  double policy = 0;
  for (auto _ : state) {
    const TrialResult result = RunTrial(spec);
    policy += result.times.policy;
    benchmark::DoNotOptimize(result.evaluations);
  }
  state.counters["groups"] = static_cast<double>(Groups().num_groups());
  state.counters["policy_s"] = policy / static_cast<double>(state.iterations());
}

// What this core can do: a product of two 512 x 512 matrices with LibTorch's BLAS, one thread.
void Peak(benchmark::State& state) {
  double best = 0;
  for (auto _ : state) best = std::max(best, MatrixProductGflops(512));
  state.counters["gflop_per_s"] = best;
}

BENCHMARK(Peak)->Unit(benchmark::kMillisecond)->Iterations(1);
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
