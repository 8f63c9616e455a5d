#include "sim/schedule/schedule_evaluator.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/testing/errors.h"
#include "tests/testing/graphs.h"

namespace emplace::testing {
namespace {

// Two layers of 1 us forward and 2 us backward; a transfer takes 1 us.
Graph TwoStages() {
  const auto backward = [](const char* name, std::vector<std::string> inputs) {
    OpSpec spec = MakeOp(name, 2, std::move(inputs), {1000});
    spec.pass = Pass::kBackward;
    return spec;
  };
  return Build({MakeOp("f0", 1, {}, {1000}), MakeOp("f1", 1, {"f0"}, {1000}), backward("b1", {"f1"}),
                backward("b0", {"b1", "f0"})});
}

Placement On(const Graph& graph, std::size_t f0, std::size_t f1, std::size_t b1, std::size_t b0) {
  Placement placement(graph.num_ops());
  const std::vector<std::pair<const char*, std::size_t>> devices = {{"f0", f0}, {"f1", f1}, {"b1", b1}, {"b0", b0}};
  for (const auto& [name, device] : devices) placement[*graph.FindOp(name)] = MakeId<DeviceId>(device);
  return placement;
}

TEST(ScheduleEvaluatorTest, AnswersWithTheStepOfTheSchedule) {
  const Graph graph = TwoStages();
  const Cluster cluster = MakeCluster(2);
  const CostTable costs = MeasuredCosts(graph, cluster);
  const ScheduleEvaluator one(graph, cluster, costs, {.name = "1f1b", .micro_batches = 1});
  const StepResult result = one.Run(On(graph, 0, 1, 1, 0));
  EXPECT_TRUE(result.runs);
  EXPECT_TRUE(result.fits_memory);
  EXPECT_EQ(result.step_time_micros, 8);  // 0F 0-1, 1F 2-3, 1B 3-5, 0B 6-8
  EXPECT_EQ(result.peak_memory.size(), 2U);
  EXPECT_EQ(one.Simulate(On(graph, 0, 1, 1, 0)).schedule.num_stages, 2U);
  EXPECT_EQ(one.Run(On(graph, 0, 0, 0, 0)).step_time_micros, 6);  // a pipeline of one stage
  const ScheduleEvaluator many(graph, cluster, costs, {.name = "1f1b", .micro_batches = 8});
  EXPECT_EQ(many.Run(On(graph, 0, 0, 0, 0)).step_time_micros, 48);
  EXPECT_LT(many.Run(On(graph, 0, 1, 1, 0)).step_time_micros, 40);
}

TEST(ScheduleEvaluatorTest, WhatIsNoPipelineCannotRun) {
  const Graph graph = TwoStages();
  const Cluster cluster = MakeCluster(2);
  const CostTable costs = MeasuredCosts(graph, cluster);
  const ScheduleEvaluator evaluator(graph, cluster, costs, {.name = "zb-v", .micro_batches = 4});
  const StepResult result = evaluator.Run(On(graph, 0, 1, 1, 0));  // zb-v wants two stages on each device
  EXPECT_FALSE(result.runs);
  EXPECT_FALSE(result.fits_memory);
  EXPECT_GT(result.step_time_micros, 4 * 6);
  EXPECT_NE(ErrorOf([&] { evaluator.Simulate(On(graph, 0, 1, 1, 0)); }), "");
  EXPECT_NE(ErrorOf([&] { ScheduleEvaluator(graph, cluster, costs, {.name = "2f2b"}); }), "");
}

TEST(ScheduleEvaluatorTest, ErrorsSayWhereTheyAre) {
  const Graph graph = TwoStages();
  const Cluster cluster = MakeCluster(2);
  const CostTable costs = MeasuredCosts(graph, cluster);
  const SchedulePlaces places = {.graph = "g.json", .placement = "p.json", .schedule = "--schedule"};
  const auto error_of = [&](const std::string& schedule, std::size_t micro_batches, const Placement& placement) {
    return ErrorOf([&] {
      SimulatePlacedSchedule(graph, cluster, costs, placement, {.name = schedule, .micro_batches = micro_batches},
                             places);
    });
  };
  EXPECT_TRUE(error_of("interleaved:2", 3, On(graph, 0, 1, 1, 0)).starts_with("--schedule: "));
  EXPECT_TRUE(error_of("zb-v", 4, On(graph, 0, 1, 1, 0)).starts_with("p.json: "));
}

TEST(ScheduleEvaluatorTest, EachRankHasAnIssueLaneOfItsOwn) {
  const Graph graph = TwoStages();
  const Cluster cluster = MakeCluster(2);
  std::vector<Device> devices = cluster.devices();
  for (Device& device : devices)
    device.issue = {.lane = "", .host_micros = 5, .launch_latency_micros = 1, .max_queued = 0};
  const auto step = [&](const Cluster& of) {
    const CostTable costs = MeasuredCosts(graph, of);
    return ScheduleEvaluator(graph, of, costs, {.name = "1f1b", .micro_batches = 4})
        .Run(On(graph, 0, 1, 1, 0))
        .step_time_micros;
  };
  const Cluster own = Cluster::Uniform("own", devices, {.bandwidth_gb_per_s = 1});
  for (Device& device : devices) device.issue->lane = "one";
  EXPECT_EQ(step(Cluster::Uniform("shared", devices, {.bandwidth_gb_per_s = 1})), step(own));
  EXPECT_GT(step(own), step(cluster));
}

TEST(ScheduleEvaluatorTest, MemoryIsThatOfTheSchedule) {
  const Graph graph = TwoStages();
  const Cluster cluster = MakeCluster(2, {.bandwidth_gb_per_s = 1}, 0, Bytes{6000});
  const CostTable costs = MeasuredCosts(graph, cluster);
  const Placement placement = On(graph, 0, 1, 1, 0);
  // gpipe holds the activations of all micro-batches, 1f1b of two.
  EXPECT_FALSE(
      ScheduleEvaluator(graph, cluster, costs, {.name = "gpipe", .micro_batches = 16}).Run(placement).fits_memory);
  EXPECT_TRUE(
      ScheduleEvaluator(graph, cluster, costs, {.name = "1f1b", .micro_batches = 16}).Run(placement).fits_memory);
}

TEST(ScheduleEvaluatorTest, StagesAreOnTheRanksOfTheSchedule) {
  EXPECT_EQ((ScheduleChoice{.name = "interleaved:2"}.StageRanks(2)), (std::vector<std::size_t>{0, 1, 0, 1}));
  ScheduleChoice given{.name = "file.csv", .micro_batches = 2};
  given.given = MakeSchedule(ParseScheduleName("gpipe", ""), 3, 2);
  EXPECT_EQ(given.StageRanks(7), (std::vector<std::size_t>{0, 1, 2}));
}

}  // namespace
}  // namespace emplace::testing
