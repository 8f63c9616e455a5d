#include "sim/formats/result_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "sim/formats/report_text.h"
#include "sim/simulator.h"
#include "tests/testing/graphs.h"

namespace emplace {
namespace {

using nlohmann::json;
using testing::MakeChain;
using testing::MakeCluster;
using testing::MeasuredCosts;

TEST(ResultJsonTest, AScheduleAddsItsNumbers) {
  // Two stages of 4 us and 2000 bytes between them, three micro-batches: 0-4, 4-8, 8-12 on gpu:0, sent 4-6, 8-10,
  // 12-14; gpu:1 runs at 6, 10 and 14. It holds one copy of 2000 bytes, and 100 of its own.
  std::vector<OpSpec> ops = {testing::MakeOp("a", 4, {}, {2000}), testing::MakeOp("b", 4, {"a"}, {100})};
  ops[0].persistent = Bytes{50};
  const Graph graph = testing::Build(ops);
  const Cluster cluster =
      MakeCluster(2, {.bandwidth_gb_per_s = 1, .latency_micros = 0, .gap_micros = 0}, 0, Bytes{4060});
  const CostTable costs = MeasuredCosts(graph, cluster);
  Placement placement(2);
  placement[*graph.FindOp("b")] = MakeId<DeviceId>(1);
  const PlacedPipeline pipeline = MakePlacedPipeline(graph, cluster, costs, placement, {0, 1}, "gpipe");
  const PipelineSchedule schedule = MakeSchedule(ParseScheduleName("gpipe", ""), 2, 3);
  const ScheduleResult result = SimulateSchedule(schedule, pipeline.model);
  std::ostringstream text;
  WriteResult(text, MakeScheduleReport(graph, cluster, costs, placement, "gpipe", schedule, pipeline, result));
  EXPECT_EQ(json::parse(text.str()), json::parse(R"({
    "schema": "emplace.result", "version": 1, "graph": "g", "cluster": "test", "engine": "fifo",
    "step_time_us": 18, "fits_memory": false,
    "lower_bound_us": 12, "lower_bound_method": "work", "critical_path_us": 8, "busiest_device_us": 12,
    "schedule": "gpipe", "micro_batches": 3, "throughput_steps_per_s": 55555.555555555555,
    "bubble_percent": 33.333333333333333, "exposed_communication_us": 2, "max_load_us": 4,
    "devices": [
      {"name": "gpu:0", "ops": 1, "busy_us": 12, "sent_bytes": 6000, "peak_bytes": 4050, "memory_bytes": 4060,
       "micro_batches_held": 3},
      {"name": "gpu:1", "ops": 1, "busy_us": 12, "sent_bytes": 0, "peak_bytes": 4100, "memory_bytes": 4060,
       "micro_batches_held": 3}],
    "ops": 2, "tensors_sent": 3, "fallback_ops": 0})"));
}

TEST(ResultJsonTest, SaysEverythingAboutAChainOverTwoDevices) {
  // op0 runs 0-4.5 on gpu:0, its 2000 bytes are sent 4.5-6.5, op1 runs 6.5-11 on gpu:1. There, gpu:1 holds the copy of
  // 2000 bytes and its own output of 2000. Both ops in sequence take 9; the bound for two devices is 4.5.
  const Graph graph = MakeChain(2, 4.5, 2000);
  const Cluster cluster =
      MakeCluster(2, {.bandwidth_gb_per_s = 1, .latency_micros = 0, .gap_micros = 0}, 0, Bytes{3000});
  const CostTable costs = MeasuredCosts(graph, cluster);
  Placement placement(2);
  placement[*graph.FindOp("op1")] = MakeId<DeviceId>(1);
  const StepResult result = Simulator(graph, cluster, costs).Run(placement);
  std::ostringstream text;
  WriteResult(text, MakeStepReport(graph, cluster, costs, placement, "fifo", result));
  EXPECT_EQ(json::parse(text.str()), json::parse(R"({
    "schema": "emplace.result", "version": 1, "graph": "chain", "cluster": "test", "engine": "fifo",
    "step_time_us": 11, "fits_memory": false,
    "lower_bound_us": 9, "lower_bound_method": "critical path", "critical_path_us": 9, "busiest_device_us": 4.5,
    "best_bound_us": 9, "best_bound_method": "critical path",
    "devices": [
      {"name": "gpu:0", "ops": 1, "busy_us": 4.5, "sent_bytes": 2000, "peak_bytes": 2000, "memory_bytes": 3000},
      {"name": "gpu:1", "ops": 1, "busy_us": 4.5, "sent_bytes": 0, "peak_bytes": 4000, "memory_bytes": 3000}],
    "ops": 2, "tensors_sent": 1, "fallback_ops": 0})"));
}

TEST(ResultJsonTest, SaysWhereTimesCameFromIfItKnows) {
  StepReport report;
  report.costs = "profile \"p\".json, else roofline";
  std::ostringstream text;
  WriteResult(text, report);
  EXPECT_EQ(json::parse(text.str()).at("costs"), report.costs);
}

TEST(ResultJsonTest, NumbersReadBackToTheSameDouble) {
  StepReport report;
  report.step_time_micros = 0.1 + 0.2;
  report.lower_bound_micros = 1e300;
  report.critical_path_micros = 5e-324;
  std::ostringstream text;
  WriteResult(text, report);
  const json read = json::parse(text.str());
  EXPECT_EQ(read.at("step_time_us").get<double>(), 0.1 + 0.2);
  EXPECT_EQ(read.at("lower_bound_us").get<double>(), 1e300);
  EXPECT_EQ(read.at("critical_path_us").get<double>(), 5e-324);
}

TEST(ResultJsonTest, DevicesWithoutALimitHaveNoCapacityAndIdleOnesAreListed) {
  const Graph graph = MakeChain(1, 1, 0);
  const Cluster cluster = MakeCluster(3);
  const CostTable costs = MeasuredCosts(graph, cluster);
  const StepResult result = Simulator(graph, cluster, costs).Run(Placement(1));
  std::ostringstream text;
  WriteResult(text, MakeStepReport(graph, cluster, costs, Placement(1), "fifo", result));
  const json devices = json::parse(text.str()).at("devices");
  ASSERT_EQ(devices.size(), 3U);
  EXPECT_FALSE(devices.at(0).contains("memory_bytes"));
  EXPECT_EQ(devices.at(2).at("ops"), 0);
}

TEST(ReportTextTest, TheFirstLineNamesTheCosts) {
  EXPECT_EQ(HeadLine("nmt", "desk", "fifo", "roofline", ""), "nmt on desk, engine fifo, costs roofline (estimates)");
  EXPECT_EQ(HeadLine("nmt", "desk", "fifo", "curves", "9 product"),
            "nmt on desk, engine fifo, costs curves\ncosts        9 product");
  EXPECT_EQ(HeadLine("nmt", "desk", "fifo", "", ""), "nmt on desk, engine fifo");
  std::ostringstream text;
  StepReport report;
  report.graph = "nmt";
  report.cluster = "desk";
  report.engine = "flow";
  report.step_time_micros = 1500;
  PrintStepReport(text, report);
  EXPECT_EQ(text.str().substr(0, 47), "nmt on desk, engine flow\nstep time    1.500 ms\n");
  report.lower_bound_method = "path";
  std::ostringstream head;
  PrintExplanationHead(head, report);
  EXPECT_TRUE(head.str().starts_with(text.str().substr(0, 47) + "lower bound  "));
  EXPECT_TRUE(head.str().ends_with(" (path)\n"));
}

TEST(ReportTextTest, TheLargestPeakIsOfAnyDevice) {
  StepReport report;
  EXPECT_EQ(LargestPeak(report), Bytes{0});
  report.devices.resize(3);
  report.devices[1].peak = Bytes{70};
  report.devices[2].peak = Bytes{30};
  EXPECT_EQ(LargestPeak(report), Bytes{70});
}

}  // namespace
}  // namespace emplace
