#include "tests/bench/bench_graphs.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "datasets/models/registry.h"
#include "datasets/shipped_clusters.h"
#include "sim/base/options.h"
#include "sim/base/rng.h"
#include "sim/cost/cost_models.h"
#include "tests/testing/graphs.h"

namespace emplace::testing {

Graph LayeredGraph(std::size_t num_ops) {
  Rng rng(4);
  const auto width = static_cast<std::size_t>(std::max(2.0, 0.8 * std::sqrt(static_cast<double>(num_ops))));
  GraphBuilder builder("layered");
  std::vector<std::size_t> outputs;
  for (std::size_t i = 0; i < num_ops; ++i) {
    OpSpec spec =
        MakeOp(fmt::format("op{:06}", i), static_cast<double>(rng.Below(4) == 0 ? 0 : rng.Below(1000)), {}, {});
    const std::size_t layer = i / width;
    const std::size_t inputs = layer == 0 ? 0 : 1 + rng.Below(rng.Below(2) == 0 ? 2 : 6);
    for (std::size_t k = 0; k < inputs; ++k) {
      const std::size_t back = std::min<std::size_t>(layer, 1 + rng.Below(rng.Below(4) == 0 ? 10 : 2));
      const std::size_t producer = (layer - back) * width + rng.Below(width);
      spec.inputs.push_back(fmt::format("op{:06}:{}", producer, rng.Below(outputs[producer])));
    }
    outputs.push_back(rng.Below(10) < 7 ? 1 : 1 + rng.Below(3));
    for (std::size_t k = 0; k < outputs.back(); ++k) {
      spec.outputs.push_back({.size = Bytes{static_cast<std::int64_t>(rng.Below(4'000'000))}, .shape = {}});
    }
    builder.Add(spec);
  }
  return builder.Build();
}

Graph NmtGraph(std::size_t num_ops) {
  // About 190 ops a step with 2 layers, plus ops that do not depend on the number of steps.
  const auto make = [](std::size_t steps) {
    const OptionMap options = {{"layers", "2"}, {"steps", std::to_string(steps)}};
    OptionReader reader(options, "nmt");
    return datasets::FindModel("nmt").make(reader);
  };
  const std::size_t at_8 = make(8).num_ops();
  const std::size_t per_step = std::max<std::size_t>((make(16).num_ops() - at_8) / 8, 1);
  const Graph graph = make(8 + (num_ops > at_8 ? (num_ops - at_8) / per_step : 0));
  const Cluster cluster = datasets::LoadCluster("p2.8xlarge").KeepAccelerators(1);
  const CostTable costs(graph, cluster, *MakeRooflineCostModel());
  const DeviceId gpu = *cluster.FindDevice("gpu:0");
  GraphBuilder builder("nmt");
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const OpId id = MakeId<OpId>(i);
    OpSpec spec = MakeOp(std::string(graph.op(id).name), costs.Micros(id, gpu), {}, {});
    for (const TensorId input : graph.inputs(id)) {
      const Tensor& tensor = graph.tensor(input);
      spec.inputs.push_back(fmt::format("{}:{}", graph.op(tensor.producer).name, tensor.output_index));
    }
    for (const OpId producer : graph.control_inputs(id)) spec.control_inputs.emplace_back(graph.op(producer).name);
    for (std::size_t k = 0; k < graph.num_outputs(id); ++k) {
      spec.outputs.push_back(
          {.size = graph.tensor(MakeId<TensorId>(Index(graph.first_output(id)) + k)).size, .shape = {}});
    }
    spec.persistent = graph.op(id).persistent;
    spec.temp = graph.op(id).temp;
    builder.Add(spec);
  }
  return builder.Build();
}

Graph BacklogFanGraph(std::size_t num_ops) {
  GraphBuilder builder("backlog_fan");
  const std::size_t third = num_ops / 3;
  for (std::size_t i = 0; i < third; ++i) builder.Add(MakeOp(fmt::format("v{}", i), 0, {}, {76'000}));
  for (std::size_t i = 0; i < third; ++i) builder.Add(MakeOp(fmt::format("r{}", i), 1, {fmt::format("v{}", i)}));
  for (std::size_t i = 0; i < third; ++i) {
    builder.Add(
        MakeOp(fmt::format("c{}", i), 1, i == 0 ? std::vector<std::string>() : std::vector{fmt::format("c{}", i - 1)}));
  }
  return builder.Build();
}

BenchProblem MakeBenchProblem(Graph graph, std::size_t devices) {
  Cluster cluster = MakeCluster(devices, {.bandwidth_gb_per_s = 7.6, .latency_micros = 0, .gap_micros = 25}, 5.7,
                                BytesFromGib(11.17));
  CostTable costs = MeasuredCosts(graph, cluster);
  Rng rng(3);
  std::vector<Placement> placements(kBenchPlacements, Placement(graph.num_ops()));
  for (Placement& placement : placements) {
    DeviceId device{};
    for (std::size_t i = 0; i < graph.num_ops(); ++i) {
      if (i % 30 == 0) device = MakeId<DeviceId>(rng.Below(devices));
      placement[MakeId<OpId>(i)] = device;
    }
  }
  return {std::move(graph), std::move(cluster), std::move(costs), std::move(placements)};
}

BenchProblem MakeBacklogFan(std::size_t num_ops) {
  BenchProblem problem = MakeBenchProblem(BacklogFanGraph(num_ops), 2);
  for (Placement& placement : problem.placements) {
    for (std::size_t i = 0; i < problem.graph.num_ops(); ++i) {
      const OpId id = MakeId<OpId>(i);
      placement[id] = MakeId<DeviceId>(problem.graph.op(id).name.front() == 'v' ? 0 : 1);
    }
  }
  return problem;
}

}  // namespace emplace::testing
