#include "profiler/op_gap.h"

#include <string>
#include <vector>

#include "profiler/aggregate.h"
#include "profiler/hardware_runner.h"
#include "sim/cluster.h"
#include "sim/graph.h"

namespace emplace {
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

}  // namespace

double MeasureOpGap(HardwareDevice& device) {
  GraphBuilder builder("chain");
  builder.Add(Number("op0", "input", {}));
  for (std::size_t i = 1; i <= kLength; ++i) {
    builder.Add(Number("op" + std::to_string(i), "relu", {"op" + std::to_string(i - 1)}));
  }
  const Graph graph = builder.Build();
  const Cluster cluster = Cluster::Uniform("one", {{.name = device.name(), .kind = device.kind(), .memory = {}}}, {});
  const HardwareRunner runner(graph, cluster, {&device});
  const HardwareStep step = runner.Measure(Placement(graph.num_ops()));
  std::vector<double> gaps;
  for (std::size_t i = 2; i < step.timeline.ops.size(); ++i) {
    gaps.push_back(step.timeline.ops[i].start_micros - step.timeline.ops[i - 1].end_micros);
  }
  return AggregateGap(gaps, device.kind());
}

}  // namespace emplace
