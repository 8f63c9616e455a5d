#include "agents/throughput/pipeline_start.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agents/agent.h"
#include "agents/named_placement.h"
#include "agents/search.h"
#include "agents/throughput/contiguous_units.h"
#include "agents/throughput/pipeline_chain.h"
#include "agents/throughput/stage_costs.h"
#include "sim/base/rng.h"
#include "sim/grouping.h"
#include "tests/testing/graphs.h"
#include "tests/testing/searches.h"

namespace emplace::testing {
namespace {

// Layers of one forward op of 10 us and one backward op of 20 us, in a chain.
Graph Layers(std::size_t count) {
  std::vector<OpSpec> specs;
  const auto add = [&](const std::string& name, double micros, std::vector<std::string> inputs, std::size_t layer,
                       Pass pass) {
    OpSpec spec = MakeOp(name, micros, std::move(inputs), {1000});
    spec.layer = fmt::format("layer{}", layer);
    spec.pass = pass;
    specs.push_back(spec);
  };
  for (std::size_t i = 0; i < count; ++i) {
    add(fmt::format("f{}", i), 10, i == 0 ? std::vector<std::string>{} : std::vector{fmt::format("f{}", i - 1)}, i,
        Pass::kForward);
  }
  for (std::size_t i = count; i-- > 0;) {
    std::vector<std::string> inputs = {fmt::format("f{}", i)};
    if (i + 1 < count) inputs.push_back(fmt::format("b{}", i + 1));
    add(fmt::format("b{}", i), 20, std::move(inputs), i, Pass::kBackward);
  }
  return Build(specs);
}

TEST(PipelineStartTest, RunsForEverySchedule) {
  const Graph graph = Layers(16);
  const Cluster cluster = MakeCluster(4);
  const CostTable costs = MeasuredCosts(graph, cluster);
  EXPECT_EQ(agents::PipelineGroups(graph, cluster, costs).num_groups(), 16U);
  for (const char* const name : {"gpipe", "1f1b", "interleaved:2", "zb-h1", "zb-v"}) {
    SCOPED_TRACE(name);
    const ScheduleEvaluator evaluator(graph, cluster, costs, {.name = name, .micro_batches = 8});
    const auto start = agents::PipelineStart(graph, cluster, costs, evaluator, ColocationClasses(graph));
    ASSERT_TRUE(start.has_value());
    const StepResult result = evaluator.Run(*start);
    EXPECT_TRUE(result.runs);
    EXPECT_LT(result.step_time_micros, 8 * 16 * 30 / 2);  // more than twice as fast as one device
  }
}

TEST(PipelineStartTest, StopsWithTheBestSoFar) {
  const Graph graph = Layers(16);
  const Cluster cluster = MakeCluster(4);
  const CostTable costs = MeasuredCosts(graph, cluster);
  const ScheduleEvaluator evaluator(graph, cluster, costs, {.name = "1f1b", .micro_batches = 8});
  int asked = 0;
  const auto start =
      agents::PipelineStart(graph, cluster, costs, evaluator, ColocationClasses(graph), std::nullopt, [&] {
        ++asked;
        return true;
      });
  ASSERT_TRUE(start.has_value());
  EXPECT_TRUE(evaluator.Run(*start).runs);
  EXPECT_GT(asked, 0);
  EXPECT_LT(asked, 100);
}

TEST(PipelineStartTest, SearchesForAScheduleStartThere) {
  const Graph graph = Layers(6);
  const Cluster cluster = MakeCluster(2);
  agents::SearchSpec spec = MakeSearch(graph, cluster, "local_search");
  spec.problem.grouping = "";
  spec.schedule = "1f1b";
  spec.micro_batches = 8;
  const agents::SearchResult result = agents::RunSearch(spec);
  EXPECT_EQ(result.num_groups, 6U);
  ASSERT_TRUE(result.best.has_value());
  const ScheduleEvaluator evaluator(graph, cluster, spec.problem.costs, {.name = "1f1b", .micro_batches = 8});
  EXPECT_EQ(evaluator.Run(*result.best).step_time_micros, result.best_result.step_time_micros);
  EXPECT_LE(result.best_result.step_time_micros, result.start_micros);
  // Most single ops that move make no pipeline; that is survived.
  spec.problem.grouping = "identity";
  for (const char* const agent : {"multilevel_search", "annealing", "random_walk", "placeto"}) {
    SCOPED_TRACE(agent);
    spec.agent = agent;
    spec.evaluations = 200;
    EXPECT_LE(agents::RunSearch(spec).best_result.step_time_micros, result.start_micros);
  }
}

// Layers with weights, an update of them, and activations that the backward pass reads.
struct Layer {
  double micros = 0;
  std::int64_t activation = 0;
  std::int64_t weights = 0;
};
Graph WeighedLayers(const std::vector<Layer>& layers) {
  std::vector<OpSpec> specs;
  const auto add = [&](const std::string& name, const std::string& kind, double micros, std::vector<std::string> inputs,
                       const std::vector<std::int64_t>& outputs, std::size_t layer, Pass pass) {
    OpSpec spec = MakeOp(name, micros, std::move(inputs), outputs);
    spec.kind = kind;
    spec.layer = fmt::format("layer{}", layer);
    spec.pass = pass;
    specs.push_back(spec);
  };
  const std::size_t count = layers.size();
  for (std::size_t i = 0; i < count; ++i) {
    add(fmt::format("w{}", i), "variable", 0, {}, {layers[i].weights}, i, Pass::kForward);
    std::vector<std::string> inputs = {fmt::format("w{}", i)};
    if (i > 0) inputs.push_back(fmt::format("f{}", i - 1));
    add(fmt::format("f{}", i), "layer", layers[i].micros, inputs, {layers[i].activation}, i, Pass::kForward);
  }
  for (std::size_t i = count; i-- > 0;) {
    std::vector<std::string> inputs = {fmt::format("f{}", i), fmt::format("w{}", i)};
    if (i + 1 < count) inputs.push_back(fmt::format("d{}", i + 1));
    add(fmt::format("d{}", i), "grad", layers[i].micros, inputs, {layers[i].activation}, i, Pass::kBackward);
    add(fmt::format("g{}", i), "grad", layers[i].micros, inputs, {layers[i].weights}, i, Pass::kBackward);
    add(fmt::format("u{}", i), "update", 1, {fmt::format("g{}", i), fmt::format("w{}", i)}, {0}, i, Pass::kUpdate);
  }
  return Build(specs);
}

std::vector<Layer> RandomLayers(Rng& rng, std::size_t count) {
  std::vector<Layer> layers;
  for (std::size_t i = 0; i < count; ++i) {
    layers.push_back({.micros = 5 + static_cast<double>(rng.Below(20)),
                      .activation = 1000 + 1000 * static_cast<std::int64_t>(rng.Below(8)),
                      .weights = 500 * static_cast<std::int64_t>(1 + rng.Below(6))});
  }
  return layers;
}

double OverBytesOf(const StepResult& result, const Cluster& cluster) {
  double over = 0;
  for (std::size_t d = 0; d < cluster.num_devices(); ++d) {
    const std::optional<Bytes>& memory = cluster.devices()[d].memory;
    if (memory && result.peak_memory[d] > *memory) over += static_cast<double>((result.peak_memory[d] - *memory).count);
  }
  return over;
}

// The best of all contiguous cuts of layers, on the first devices in order: bytes too many, and step time.
std::pair<double, double> BestOfAllCuts(const Graph& graph, const Cluster& cluster, const ScheduleEvaluator& evaluator,
                                        std::size_t layers) {
  std::pair<double, double> best = {1e18, 1e18};
  std::vector<std::size_t> stage_of_layer(layers, 0);
  const auto try_all = [&](const auto& self, std::size_t layer, std::size_t stage) -> void {
    if (layer < layers) {
      stage_of_layer[layer] = stage;
      self(self, layer + 1, stage);
      if (stage + 1 < 2 * cluster.num_devices()) self(self, layer + 1, stage + 1);
      return;
    }
    const std::size_t stages = stage_of_layer.back() + 1;
    for (std::size_t devices = 1; devices <= cluster.num_devices(); ++devices) {
      const std::vector<std::size_t> ranks = evaluator.choice().StageRanks(devices);
      if (ranks.size() != stages) continue;
      Placement placement(graph.num_ops());
      for (std::size_t i = 0; i < graph.num_ops(); ++i) {
        const auto op = MakeId<OpId>(i);
        const std::size_t own = std::stoul(std::string(graph.op(op).name).substr(1));
        placement[op] = MakeId<DeviceId>(ranks[stage_of_layer[own]]);
      }
      const StepResult result = evaluator.Run(placement);
      if (result.runs) best = std::min(best, {OverBytesOf(result, cluster), result.step_time_micros});
    }
  };
  try_all(try_all, 0, 0);
  return best;
}

TEST(PipelineStartTest, IsAsGoodAsTheBestOfAllCuts) {
  Rng rng(7);
  int tight = 0;
  for (int round = 0; round < 6; ++round) {
    const std::size_t count = 6 + rng.Below(3);
    const Graph graph = WeighedLayers(RandomLayers(rng, count));
    for (const char* const name : {"gpipe", "1f1b", "interleaved:2", "zb-h1", "zb-v"}) {
      for (const std::int64_t memory : {1'000'000, 60'000, 35'000}) {
        SCOPED_TRACE(fmt::format("{} {} {}", round, name, memory));
        const Cluster cluster = MakeCluster(3, {.bandwidth_gb_per_s = 10}, 0, Bytes{memory});
        const CostTable costs = MeasuredCosts(graph, cluster);
        const ScheduleEvaluator evaluator(graph, cluster, costs, {.name = name, .micro_batches = 6});
        const auto start = agents::PipelineStart(graph, cluster, costs, evaluator, ColocationClasses(graph));
        ASSERT_TRUE(start.has_value());
        const StepResult result = evaluator.Run(*start);
        ASSERT_TRUE(result.runs);
        const auto [over, micros] = BestOfAllCuts(graph, cluster, evaluator, count);
        if (over > 0) ++tight;
        EXPECT_LE(OverBytesOf(result, cluster), over * 1.1);
        if (over > 0) continue;
        EXPECT_LE(result.step_time_micros, micros * 1.005);
      }
    }
  }
  EXPECT_GT(tight, 0);
}

TEST(PipelineStartTest, IsNeverWorseThanOneDevice) {
  // Transfers take longer than all ops: one device is best.
  Rng rng(3);
  const Graph graph = WeighedLayers(RandomLayers(rng, 6));
  const Cluster cluster = MakeCluster(4, {.bandwidth_gb_per_s = 0.001});
  agents::SearchSpec spec = MakeSearch(graph, cluster, "multilevel_search");
  spec.evaluations = 10;
  for (const char* const name : {"gpipe", "1f1b", "interleaved:2", "zb-h1", "zb-v"}) {
    SCOPED_TRACE(name);
    spec.schedule = name;
    spec.micro_batches = 8;
    const agents::SearchResult result = agents::RunSearch(spec);
    ASSERT_TRUE(result.best && result.one_device_micros);
    EXPECT_LE(result.best_result.step_time_micros, *result.one_device_micros);
    EXPECT_FALSE(result.WorseThanOneDevice());
  }
  spec.schedule = "gpipe";
  spec.micro_batches = 8;
  spec.agent = "blocks";
  EXPECT_TRUE(agents::RunSearch(spec).WorseThanOneDevice());
}

// One op of 10 us in each of `count` layers; the last takes as long on a CPU as on an accelerator.
Graph TemptingLayers(std::size_t count) {
  std::vector<OpSpec> specs;
  for (std::size_t i = 0; i < count; ++i) {
    OpSpec spec = MakeOp(fmt::format("f{}", i), 10,
                         i == 0 ? std::vector<std::string>{} : std::vector{fmt::format("f{}", i - 1)}, {10});
    spec.layer = fmt::format("layer{}", i);
    spec.pass = Pass::kForward;
    specs.push_back(spec);
  }
  return Build(specs);
}

std::size_t OpsOnCpus(const Placement& placement, const Cluster& cluster) {
  return static_cast<std::size_t>(
      std::ranges::count_if(placement.devices(), [&](DeviceId device) { return cluster.device(device).is_cpu; }));
}

TEST(PipelineStartTest, ACpuIsNoStageUnlessAskedFor) {
  const Graph graph = TemptingLayers(3);
  const Cluster cluster = MakeMixedCluster(2);  // a third stage would be on the CPU
  agents::SearchSpec spec = MakeSearch(graph, cluster, "multilevel_search");
  spec.problem.grouping = "";
  spec.evaluations = 100;
  const auto on_cpus = [&] {
    const agents::SearchResult result = agents::RunSearch(spec);
    EXPECT_TRUE(result.best.has_value());
    return result.best ? OpsOnCpus(*result.best, spec.problem.cluster) : 0;
  };
  for (const bool is_throughput : {false, true}) {
    SCOPED_TRACE(is_throughput);
    spec.schedule = is_throughput ? "" : "1f1b";
    spec.micro_batches = is_throughput ? 0 : 32;
    spec.objective = is_throughput ? "throughput" : "";
    for (const char* const agent : {"multilevel_search", "local_search", "annealing", "random_walk", "placeto", "heft",
                                    "scotch", "dp_contiguous", "pipedream"}) {
      SCOPED_TRACE(agent);
      spec.agent = agent;
      if (!is_throughput && !agents::FindAgent(agent).searches()) continue;
      EXPECT_EQ(on_cpus(), 0U);
    }
    // Asked for by an option, an agent, a start, the names of devices.
    spec.agent = "local_search";
    spec.agent_options = {{"use_cpus", "true"}};
    EXPECT_EQ(on_cpus(), 1U);
    spec.agent_options = {};
    spec.agent = "cpu_only";
    EXPECT_EQ(on_cpus(), 3U);
    spec.agent = "multilevel_search";
    spec.given_start = Placement(3);
    for (std::size_t i = 0; i < 3; ++i) (*spec.given_start)[MakeId<OpId>(i)] = MakeId<DeviceId>(i);
    EXPECT_EQ(on_cpus(), 1U);
    spec.given_start.reset();
    spec.problem.cluster = cluster.Keep({"cpu:0", "gpu:0", "gpu:1"});
    EXPECT_EQ(on_cpus(), 1U);
    spec.problem.cluster = cluster.Keep({"gpu:0", "gpu:1"});
    spec.problem.costs = MeasuredCosts(graph, spec.problem.cluster);
    EXPECT_EQ(on_cpus(), 0U);
    spec.problem.cluster = cluster;
    spec.problem.costs = MeasuredCosts(graph, cluster);
    // The best of the agents that evaluate nothing leaves out cpu_only.
    const auto best = agents::FindNamedPlacement(agents::kBestPlacement, spec);
    ASSERT_TRUE(best.has_value());
    EXPECT_EQ(OpsOnCpus(*best, cluster), 0U);
  }
  spec.objective = "throughput:crossing=host";  // the paper's model, where CPUs are devices like others
  EXPECT_EQ(on_cpus(), 1U);
}

TEST(PipelineStartTest, WhatRunsOnCpusOnlyIsThere) {
  // The first of four layers reads data, and has a time on CPUs only.
  std::vector<OpSpec> specs;
  for (std::size_t i = 0; i < 4; ++i) {
    OpSpec spec = MakeOp(fmt::format("f{}", i), 10,
                         i == 0 ? std::vector<std::string>{} : std::vector{fmt::format("f{}", i - 1)}, {10});
    spec.layer = i < 2 ? "layer1" : fmt::format("layer{}", i);
    spec.pass = Pass::kForward;
    if (i == 0) {
      spec.time_micros.reset();
      spec.kind_times = {{"test-cpu", 10}};
    }
    specs.push_back(spec);
  }
  const Graph graph = Build(specs);
  agents::SearchSpec spec = MakeSearch(graph, MakeMixedCluster(3), "multilevel_search");
  spec.problem.grouping = "";
  spec.evaluations = 50;
  for (const char* const name : {"gpipe", "1f1b", "zb-h1"}) {
    SCOPED_TRACE(name);
    spec.schedule = name;
    spec.micro_batches = 100;
    const agents::SearchResult result = agents::RunSearch(spec);
    ASSERT_TRUE(result.best.has_value());
    EXPECT_EQ(OpsOnCpus(*result.best, spec.problem.cluster), 1U);
    EXPECT_LT(result.best_result.step_time_micros, 1.1 * 100 * 10);  // four stages
  }
}

TEST(PipelineStartTest, CostsWithoutCpuStages) {
  const Graph graph = TemptingLayers(3);
  const Cluster cluster = MakeMixedCluster(1);
  const CostTable costs = MeasuredCosts(graph, cluster);
  const CostTable without = agents::WithoutCpuStages(cluster, costs, ColocationClasses(graph));
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_FALSE(without.Allowed(MakeId<OpId>(i), MakeId<DeviceId>(0)));
    EXPECT_EQ(without.Micros(MakeId<OpId>(i), MakeId<DeviceId>(1)), 10);
    EXPECT_EQ(costs.Micros(MakeId<OpId>(i), MakeId<DeviceId>(0)), 10);
  }
}

TEST(PipelineStartTest, LayersAreCutWhereThatIsBetter) {
  // One layer takes as long as the others together: its ops go to two devices.
  std::vector<OpSpec> specs;
  const auto add = [&](const std::string& name, const std::string& layer, std::vector<std::string> inputs, Pass pass) {
    OpSpec spec = MakeOp(name, 10, std::move(inputs), {100});
    spec.layer = layer;
    spec.pass = pass;
    specs.push_back(spec);
  };
  const auto layer_of = [](std::size_t i) { return i < 4 ? std::string("large") : fmt::format("layer{}", i); };
  for (std::size_t i = 0; i < 6; ++i) {
    add(fmt::format("f{}", i), layer_of(i),
        i == 0 ? std::vector<std::string>{} : std::vector{fmt::format("f{}", i - 1)}, Pass::kForward);
  }
  for (std::size_t i = 6; i-- > 0;) {
    std::vector<std::string> inputs = {fmt::format("f{}", i)};
    if (i < 5) inputs.push_back(fmt::format("gradients/f{}/grad", i + 1));
    add(fmt::format("gradients/f{}/grad", i), layer_of(i), inputs, Pass::kBackward);
  }
  const Graph graph = Build(specs);
  EXPECT_EQ(agents::ForwardOpGroups(graph).num_groups(), 5U);  // f0 reads nothing, and goes with f1
  agents::SearchSpec spec = MakeSearch(graph, MakeCluster(3), "local_search");
  spec.problem.grouping = "";
  spec.schedule = "1f1b";
  spec.micro_batches = 30;
  spec.evaluations = 1;
  const agents::SearchResult result = agents::RunSearch(spec);
  EXPECT_EQ(result.num_groups, 4U);
  EXPECT_LT(result.best_result.step_time_micros, 1.1 * (30 + 2) * 40);
}

}  // namespace
}  // namespace emplace::testing
