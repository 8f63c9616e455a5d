#include "agents/throughput/max_load_evaluator.h"

#include <gtest/gtest.h>

#include <memory>

#include "agents/throughput/load_report.h"
#include "agents/throughput/max_load_bound.h"
#include "tests/testing/graphs.h"

namespace emplace::testing {
namespace {

using agents::MakeStageCosts;
using agents::MaxLoadBoundMicros;
using agents::MaxLoadEvaluator;
using agents::StageCosts;

TEST(MaxLoadEvaluatorTest, SaysWhatStageLoadsSay) {
  Rng rng(3);
  for (int round = 0; round < 100; ++round) {
    SCOPED_TRACE(round);
    const Graph graph = RandomDag(rng, {.num_ops = 1 + rng.Below(20), .kinds_differ = true, .memory = true});
    const Cluster cluster = MakeMixedCluster(3, Bytes{rng.Between(1, 60'000)});
    const CostTable costs = MeasuredCosts(graph, cluster);
    const StageCosts loads = MakeStageCosts(graph, cluster, costs);
    const MaxLoadEvaluator evaluator(loads);
    const std::unique_ptr<Evaluator::Workspace> workspace = evaluator.MakeWorkspace();
    StepResult result;
    for (int draw = 0; draw < 5; ++draw) {
      const Placement placement = RandomPlacement(rng, graph, cluster, costs);
      evaluator.RunWith(*workspace, placement, &result);
      EXPECT_EQ(result, evaluator.Run(placement));
      EXPECT_EQ(result.step_time_micros, MaxLoad(loads, placement));
      EXPECT_GE(result.step_time_micros, MaxLoadBoundMicros(graph, loads));
      bool fits = true;
      const std::vector<agents::StageLoad> of_devices = StageLoads(loads, placement);
      for (std::size_t d = 0; d < cluster.num_devices(); ++d) {
        EXPECT_EQ(result.peak_memory[d], of_devices[d].bytes);
        fits = fits && (!cluster.devices()[d].memory || of_devices[d].bytes <= *cluster.devices()[d].memory);
      }
      EXPECT_EQ(result.fits_memory, fits);
    }
  }
}

TEST(MaxLoadEvaluatorTest, WithoutAMemoryLimitEverythingFits) {
  const Graph graph = Build({MakeOp("a", 1, {}, {1000}), MakeOp("b", 1, {"a"}, {1000})});
  const Cluster cluster = MakeCluster(2, {.bandwidth_gb_per_s = 1}, 0, Bytes{1});
  const CostTable costs = MeasuredCosts(graph, cluster);
  EXPECT_FALSE(MaxLoadEvaluator(MakeStageCosts(graph, cluster, costs)).Run(Placement(2)).fits_memory);
  const StageCosts unlimited = MakeStageCosts(graph, cluster, costs, {.memory = agents::StageMemory::kNone});
  EXPECT_TRUE(MaxLoadEvaluator(unlimited).Run(Placement(2)).fits_memory);
}

TEST(MaxLoadBoundTest, IsAllWorkOnAllDevicesOrTheLargestOp) {
  const Cluster two = MakeCluster(2);
  const auto bound = [](const Graph& graph, const Cluster& cluster) {
    return MaxLoadBoundMicros(graph, MakeStageCosts(graph, cluster, MeasuredCosts(graph, cluster)));
  };
  EXPECT_NEAR(bound(Build({MakeOp("a", 3), MakeOp("b", 4), MakeOp("c", 5)}), two), 6, 1e-9);
  EXPECT_NEAR(bound(Build({MakeOp("a", 3), MakeOp("b", 9)}), two), 9, 1e-9);
  OpSpec with_a = MakeOp("b", 6);
  with_a.colocate_with = "a";
  EXPECT_NEAR(bound(Build({MakeOp("a", 3), with_a, MakeOp("c", 1)}), two), 9, 1e-9);
  // The CPU takes ten times as long for both: 20 us of work on 1.1 devices.
  EXPECT_NEAR(bound(MakeTwoOpsForTheAccelerator(), MakeMixedCluster(1)), 20 / 1.1, 1e-9);
  EXPECT_EQ(bound(Build({}), two), 0);
}

TEST(LoadReportTest, HasTheLoadOfEachDevice) {
  const Graph graph = MakeChain(3, 10, 2000);
  const Cluster cluster = MakeCluster(2);
  const CostTable costs = MeasuredCosts(graph, cluster);
  Placement placement(3);
  placement[MakeId<OpId>(2)] = MakeId<DeviceId>(1);
  const StepReport report =
      agents::MakeLoadReport(graph, cluster, costs, MakeStageCosts(graph, cluster, costs), placement);
  EXPECT_EQ(report.step_time_micros, 22);
  EXPECT_NEAR(report.lower_bound_micros, 15, 1e-9);
  ASSERT_EQ(report.devices.size(), 2U);
  EXPECT_EQ(report.devices[0].busy_micros, 20);
  EXPECT_EQ(report.devices[0].crossing_micros, 2);
  EXPECT_EQ(report.devices[1].crossing_micros, 2);
  EXPECT_EQ(report.tensors_sent, 1U);
}

}  // namespace
}  // namespace emplace::testing
