#include "profiler/machine/op_gap.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "profiler/device_thread.h"
#include "profiler/execute/hardware_runner.h"
#include "profiler/measure/aggregate.h"
#include "profiler/recipe.h"
#include "sim/base/statistics.h"
#include "sim/cluster.h"
#include "sim/graph.h"

namespace emplace::profiler {
namespace {

constexpr std::size_t kLength = 500;

OpSpec Number(std::string name, std::string kind, std::vector<std::string> inputs) {
  OpSpec op;
  op.name = std::move(name);
  op.kind = std::move(kind);
  op.inputs = std::move(inputs);
  op.outputs = {{.size = std::nullopt, .dtype = DType::kF32, .shape = {1}}};
  return op;
}

Graph MakeChain() {
  GraphBuilder builder("chain");
  builder.Add(Number("op0", "input", {}));
  for (std::size_t i = 1; i <= kLength; ++i) {
    builder.Add(Number("op" + std::to_string(i), "relu", {"op" + std::to_string(i - 1)}));
  }
  return builder.Build();
}

HardwareStep MeasureChain(const Graph& graph, HardwareDevice& device) {
  const Cluster cluster = Cluster::Uniform("one", {{.name = device.name(), .kind = device.kind(), .memory = {}}}, {});
  const HardwareRunner runner(graph, cluster, {&device});
  return runner.Measure(Placement(graph.num_ops()));
}

// The host's call of one of its ops.
double CallMicros(const Graph& graph, HardwareDevice& device) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> micros;
  DeviceThread thread;
  thread.Run([&] {
    device.Attach();
    const OpRecipe recipe = RecipesOf(graph)[1];
    const std::unique_ptr<OpKernel> kernel = device.Prepare(recipe);
    const std::vector<TensorHandle> inputs = {device.Make(recipe.inputs[0], 0)};
    std::vector<TensorHandle> outputs;
    const StayOnCore stay;
    for (std::size_t i = 0; i < kLength; ++i) {
      outputs.clear();
      device.Synchronize();
      const Clock::time_point start = Clock::now();
      kernel->Run(inputs, &outputs);
      micros.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
    }
  });
  return Median(std::move(micros));
}

}  // namespace

double MeasureOpGap(HardwareDevice& device) {
  const Graph graph = MakeChain();
  const HardwareStep step = MeasureChain(graph, device);
  std::vector<double> gaps;
  for (std::size_t i = 2; i < step.timeline.ops.size(); ++i) {
    gaps.push_back(step.timeline.ops[i].start_micros - step.timeline.ops[i - 1].end_micros);
  }
  return AggregateGap(gaps, device.kind());
}

double MeasureHostGap(HardwareDevice& device) {
  const Graph graph = MakeChain();
  const HardwareStep step = MeasureChain(graph, device);
  return std::max(step.result.step_time_micros / static_cast<double>(kLength) - CallMicros(graph, device), 0.0);
}

}  // namespace emplace::profiler
