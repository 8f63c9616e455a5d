#include "agents/throughput/pipeline_chain.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "agents/throughput/contiguous_units.h"
#include "agents/throughput/stage_costs.h"
#include "sim/grouping.h"
#include "sim/schedule/schedule_evaluator.h"
#include "tests/testing/graphs.h"

namespace emplace::testing {
namespace {

TEST(RangeMaxTest, IsTheLargestOfARun) {
  const agents::RangeMax range({3, 1, 4, 1, 5});
  EXPECT_EQ(range.Of(0, 1), 3);
  EXPECT_EQ(range.Of(0, 5), 5);
  EXPECT_EQ(range.Of(1, 4), 4);
  EXPECT_EQ(range.Of(3, 3), 0);
}

// Each layer has weights of 300 bytes, an activation of 1000, and an update.
Graph FourLayers() {
  std::vector<OpSpec> specs;
  const auto add = [&](const std::string& name, const std::string& kind, double micros, std::vector<std::string> inputs,
                       std::int64_t bytes, std::size_t layer, Pass pass) {
    OpSpec spec = MakeOp(name, micros, std::move(inputs), {bytes});
    spec.kind = kind;
    spec.layer = fmt::format("layer{}", layer);
    spec.pass = pass;
    specs.push_back(spec);
  };
  for (std::size_t i = 0; i < 4; ++i) {
    add(fmt::format("w{}", i), "variable", 0, {}, 300, i, Pass::kForward);
    std::vector<std::string> inputs = {fmt::format("w{}", i)};
    if (i > 0) inputs.push_back(fmt::format("f{}", i - 1));
    add(fmt::format("f{}", i), "layer", 3 + static_cast<double>(i), inputs, 1000, i, Pass::kForward);
  }
  for (std::size_t i = 4; i-- > 0;) {
    std::vector<std::string> inputs = {fmt::format("f{}", i), fmt::format("w{}", i)};
    if (i < 3) inputs.push_back(fmt::format("d{}", i + 1));
    add(fmt::format("d{}", i), "grad", 4, inputs, 1000, i, Pass::kBackward);
    add(fmt::format("g{}", i), "grad", 2, inputs, 300, i, Pass::kBackward);
    add(fmt::format("u{}", i), "update", 1, {fmt::format("g{}", i), fmt::format("w{}", i)}, 0, i, Pass::kUpdate);
  }
  return Build(specs);
}

TEST(PipelineChainTest, AgreesWithTheEvaluator) {
  const Graph graph = FourLayers();
  const Cluster cluster = MakeCluster(4);
  const CostTable costs = MeasuredCosts(graph, cluster);
  const agents::PipelineChain chain(
      graph, cluster, costs,
      agents::MakeContiguousUnits(graph, ColocationClasses(graph), agents::MakeStageCosts(graph, cluster, costs)));
  ASSERT_EQ(chain.size(), 4U);
  EXPECT_DOUBLE_EQ(chain.Micros(MakeId<DeviceId>(0), 1, 3), 4 + 5 + 2 * (4 + 2));
  EXPECT_TRUE(chain.Alike(MakeId<DeviceId>(0), MakeId<DeviceId>(3)));
  EXPECT_TRUE(chain.AllowedUpTo(MakeId<DeviceId>(0), 0, 4));
  struct Case {
    const char* schedule;
    std::size_t devices;
    std::vector<std::size_t> ends;
  };
  for (const auto& [schedule, devices, ends] :
       {Case{"1f1b", 1, {4}}, Case{"1f1b", 2, {1, 4}}, Case{"1f1b", 4, {1, 2, 3, 4}}, Case{"gpipe", 3, {2, 3, 4}},
        Case{"zb-h1", 2, {2, 4}}, Case{"interleaved:2", 2, {1, 2, 3, 4}}, Case{"zb-v", 2, {1, 2, 3, 4}}}) {
    SCOPED_TRACE(fmt::format("{} {}", schedule, devices));
    const ScheduleEvaluator evaluator(graph, cluster, costs, {.name = schedule, .micro_batches = 4});
    const std::vector<std::size_t> ranks = evaluator.choice().StageRanks(devices);
    agents::PipelineCut cut{.devices = {}, .ends = ends};
    for (std::size_t d = 0; d < devices; ++d) cut.devices.push_back(MakeId<DeviceId>(d));
    const ScheduleResult model =
        SimulateSchedule(MakeSchedule(ParseScheduleName(schedule, ""), devices, 4), chain.ModelOf(cut, ranks));
    const StepResult real = evaluator.Run(chain.PlacementOf(cut, ranks));
    ASSERT_TRUE(real.runs);
    EXPECT_NEAR(MicrosFromDuration(model.step_time), real.step_time_micros, 0.02 * real.step_time_micros);
    for (std::size_t d = 0; d < devices; ++d) {
      const auto peak = static_cast<double>(real.peak_memory[d].count);
      EXPECT_NEAR(static_cast<double>(model.ranks[d].peak.count), peak, 0.25 * peak) << d;
    }
    EXPECT_GT(chain.StageBytes(0, ends[0], 2), chain.StageBytes(0, ends[0], 1));
  }
}

}  // namespace
}  // namespace emplace::testing
