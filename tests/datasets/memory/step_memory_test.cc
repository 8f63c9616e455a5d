#include "datasets/memory/step_memory.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "datasets/models/registry.h"
#include "sim/base/options.h"
#include "sim/cost_model.h"
#include "sim/simulator.h"
#include "tests/testing/graphs.h"

namespace emplace {
namespace step_memory_test {

using datasets::MemoryClass;

datasets::RankPeak PeakOn(const Graph& graph, const Cluster& cluster, const Placement& placement, DeviceId device,
                          Bytes* simulated) {
  const CostTable costs(graph, cluster, *MakeCostModel("roofline"));
  const Simulator simulator(graph, cluster, costs);
  *simulated = simulator.Run(placement).peak_memory[Index(device)];
  return PeakOf(datasets::MakeStepProgram(graph, placement, simulator.Record(placement), device));
}

Cluster OfKind(std::size_t devices) {
  std::vector<Device> all;
  for (std::size_t d = 0; d < devices; ++d) {
    Device device;
    device.name = "gpu:" + std::to_string(d);
    device.kind = "h100";
    all.push_back(device);
  }
  return Cluster::Uniform("test", all, {.bandwidth_gb_per_s = 100, .latency_micros = 2});
}

double ClassBytes(const datasets::RankPeak& peak, MemoryClass memory_class) {
  return static_cast<double>(peak.classes[static_cast<std::size_t>(memory_class)]);
}

// The allocator rounds sizes up to 512 bytes, and a block that it does not divide has up to 1 MiB more than was asked
// for: that is all by which the peaks differ.
TEST(StepMemoryTest, ThePeakIsThatOfTheSimulator) {
  const std::pair<const char*, OptionMap> networks[] = {
      {"llama", {{"layers", "2"}, {"d_model", "512"}, {"heads", "8"}, {"d_ff", "1536"}, {"sequence", "512"}}},
      {"gpt", {{"layers", "2"}, {"d_model", "512"}, {"heads", "8"}, {"precision", "bf16"}}},
      {"bert", {{"layers", "2"}}},
      {"resnet", {{"batch", "8"}}}};
  for (const auto& [name, options] : networks) {
    const Graph graph = datasets::MakeModel(name, options);
    for (const std::size_t devices : {1, 2}) {
      const Cluster cluster = OfKind(devices);
      Placement placement(graph.num_ops());
      // Half of the layers each, with the ops that are tied to them.
      for (std::size_t i = 0; i < graph.num_ops(); ++i) {
        const OpId op = MakeId<OpId>(i);
        const std::size_t at = Index(graph.colocation_class(op)) * devices / graph.num_ops();
        placement[op] = MakeId<DeviceId>(at);
      }
      for (std::size_t d = 0; d < devices; ++d) {
        Bytes simulated;
        const datasets::RankPeak peak = PeakOn(graph, cluster, placement, MakeId<DeviceId>(d), &simulated);
        const auto bytes = static_cast<double>(simulated.count);
        EXPECT_GE(static_cast<double>(peak.allocated_bytes), 0.995 * bytes) << name << " on " << devices;
        EXPECT_LE(static_cast<double>(peak.allocated_bytes), 1.02 * bytes) << name << " on " << devices;
        EXPECT_GE(peak.reserved_bytes, peak.allocated_bytes);
        EXPECT_EQ(std::accumulate(peak.classes.begin(), peak.classes.end(), std::int64_t{0}), peak.allocated_bytes);
        EXPECT_FALSE(peak.moment.empty());
      }
    }
  }
}

TEST(StepMemoryTest, ClassesAreThoseOfTraining) {
  const Graph graph =
      datasets::MakeModel("gpt", {{"layers", "2"}, {"d_model", "512"}, {"heads", "8"}, {"precision", "bf16"}});
  Bytes simulated;
  const datasets::RankPeak peak = PeakOn(graph, OfKind(1), Placement(graph.num_ops()), MakeId<DeviceId>(0), &simulated);
  double weights = 0;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    const Op& op = graph.op(MakeId<OpId>(i));
    if (op.kind == "variable") weights += static_cast<double>(op.persistent.count);
  }
  // Adam has the weights and two moments in f32. The weights count as such and as what ops read.
  EXPECT_NEAR(ClassBytes(peak, MemoryClass::kOptimizer), 6 * weights, 0.01 * 6 * weights);
  EXPECT_NEAR(ClassBytes(peak, MemoryClass::kWeights), 2 * weights, 0.04 * 2 * weights);
  EXPECT_GT(ClassBytes(peak, MemoryClass::kActivations), 0);
  EXPECT_GT(ClassBytes(peak, MemoryClass::kLogits), 0);
  EXPECT_EQ(ClassBytes(peak, MemoryClass::kCommunication), 0);
  std::size_t gradients = 0;
  for (std::size_t t = 0; t < graph.num_tensors(); ++t) {
    const auto tensor = MakeId<TensorId>(t);
    const bool is_gradient = datasets::ClassOf(graph, tensor) == MemoryClass::kGradients;
    gradients += is_gradient;
    if (is_gradient) {
      EXPECT_NE(graph.op(graph.tensor(tensor).producer).pass, Pass::kForward);
    }
  }
  EXPECT_GT(gradients, 10U);
}

}  // namespace step_memory_test
}  // namespace emplace
