// One iteration of a GPT of 175 billion parameters (Brown et al. 2020, table 2.1: 96 layers, width 12,288, 96 heads,
// 2,048 tokens) in mixed precision, as Megatron-LM spreads it: tensors over 8 GPUs of a node, layers over up to 16
// stages, and replicas, with 64 micro-batches of one sequence in schedule 1f1b. The argument is the number of GPUs.
// Time is that of op times by roofline, stages and the schedule; the graph is made before.

#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "datasets/models/registry.h"
#include "datasets/transform/transform.h"
#include "sim/cluster.h"
#include "sim/cost/cost_models.h"
#include "sim/schedule/placed_pipeline.h"
#include "sim/schedule/schedule.h"
#include "sim/schedule/schedule_simulator.h"

namespace emplace {
namespace {

constexpr std::size_t kLayers = 96;
constexpr std::size_t kTensor = 8;
constexpr std::size_t kMicroBatches = 64;

// Nodes of 8 A100s, each with a network card of 200 Gb/s, on one switch that blocks nothing.
Cluster NodesOfA100s(std::size_t gpus) {
  std::vector<Device> devices;
  std::vector<std::string> switches = {"leaf"};
  std::vector<Topology::Link> links;
  const auto join = [&](std::size_t a, std::size_t b, double gb_per_s, double micros) {
    links.push_back({static_cast<std::uint32_t>(a), static_cast<std::uint32_t>(b), gb_per_s, micros});
    links.push_back({static_cast<std::uint32_t>(b), static_cast<std::uint32_t>(a), gb_per_s, micros});
  };
  for (std::size_t gpu = 0; gpu < gpus; ++gpu) {
    devices.push_back({.name = fmt::format("gpu:{}", gpu), .kind = "a100", .memory = {}, .op_gap_micros = 2});
    if (gpu % kTensor == 0) switches.push_back(fmt::format("nvswitch:{}", gpu / kTensor));
    join(gpu, gpus + 1 + gpu / kTensor, 295, 1.25);
    join(gpu, gpus, 22.5, 2.5);
  }
  return Cluster("nodes", "", std::move(devices), Topology(gpus, std::move(switches), std::move(links)),
                 Channels::kPerPair);
}

std::size_t NumberBehind(std::string_view text, char letter, std::size_t at) {
  if (at >= text.size() || text[at] != letter) return 0;
  return static_cast<std::size_t>(std::stoul(std::string(text.substr(at + 1, 6))));
}

// Parts of a tensor are neighbours, then replicas, then stages.
Placement LikeMegatron(const Graph& graph, std::size_t stages, std::size_t replicas) {
  Placement placement(graph.num_ops());
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const Op& op = graph.op(MakeId<OpId>(i));
    const std::size_t replica = replicas > 1 ? NumberBehind(op.name, 'r', 0) : 0;
    const std::size_t part = NumberBehind(op.name, 't', replicas > 1 ? op.name.find('/') + 1 : 0);
    std::size_t stage = op.layer == "embedding" ? 0 : stages - 1;
    if (op.layer.starts_with("block")) stage = NumberBehind(op.layer, 'k', 4) * stages / kLayers;
    placement[MakeId<OpId>(i)] = MakeId<DeviceId>((stage * replicas + replica) * kTensor + part);
  }
  return placement;
}

void BM_Pipeline175B(benchmark::State& state) {
  const auto gpus = static_cast<std::size_t>(state.range(0));
  const std::size_t stages = std::min<std::size_t>(gpus / kTensor, 16);
  const std::size_t replicas = gpus / kTensor / stages;
  const Graph alone = datasets::MakeModel("gpt", {{"layers", std::to_string(kLayers)},
                                                  {"d_model", "12288"},
                                                  {"heads", "96"},
                                                  {"sequence", "2048"},
                                                  {"batch", "1"},
                                                  {"vocabulary", "51200"},
                                                  {"precision", "f16"}});
  const Graph graph =
      datasets::Transform(alone, {.tensor_parallel = kTensor, .data_parallel = static_cast<std::int64_t>(replicas)});
  const Cluster cluster = NodesOfA100s(gpus);
  const Placement placement = LikeMegatron(graph, stages, replicas);
  Duration step{};
  for (auto _ : state) {
    const CostTable costs(graph, cluster, *MakeRooflineCostModel());
    const PipelineSchedule schedule = MakeSchedule(ParseScheduleName("1f1b", ""), stages, kMicroBatches);
    const PlacedPipeline pipeline = MakePlacedPipeline(graph, cluster, costs, placement, RankOfStage(schedule), "1f1b");
    step = SimulateSchedule(schedule, pipeline.model).step_time;
    benchmark::DoNotOptimize(step);
  }
  state.counters["ops"] = static_cast<double>(graph.num_ops());
  state.counters["step_s"] = MicrosFromDuration(step) / 1e6;
}
BENCHMARK(BM_Pipeline175B)->Arg(8)->Arg(64)->Arg(128)->Arg(256)->Arg(512)->Arg(1024)->Unit(benchmark::kSecond);

}  // namespace
}  // namespace emplace
