#include "experiments/report/schedule_explanation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/testing/graphs.h"

namespace emplace::testing {
namespace schedule_explanation_report_test {

using ::testing::HasSubstr;

// Two stages: 0F 0-4, 1000 bytes to gpu:1 take 2, 1F 6-12, 1B 12-24, back 24-26, 0B 26-34, and an update until 39.
TEST(ExplainedScheduleTest, IsPrintedAndWritten) {
  std::vector<OpSpec> ops = {MakeOp("f0", 4, {}, {1000}), MakeOp("f1", 6, {"f0"}, {1000}),
                             MakeOp("b1", 12, {"f1"}, {1000}), MakeOp("b0", 8, {"b1", "f0"}, {1000}),
                             MakeOp("u0", 5, {"b0"})};
  ops[0].pass = ops[1].pass = Pass::kForward;
  ops[2].pass = ops[3].pass = Pass::kBackward;
  ops[4].pass = Pass::kUpdate;
  const Graph graph = Build(ops);
  const Cluster cluster =
      Cluster::Uniform("two", {{"gpu:0", "test-gpu", std::nullopt}, {"gpu:1", "test-gpu", std::nullopt}},
                       {.bandwidth_gb_per_s = 1, .latency_micros = 1});
  const CostTable costs = MeasuredCosts(graph, cluster);
  Placement placement(graph.num_ops());
  for (const char* const op : {"f1", "b1"}) placement[*graph.FindOp(op)] = MakeId<DeviceId>(1);
  const experiments::ExplainedSchedule explained =
      experiments::MakeExplainedSchedule(graph, cluster, costs, placement, {.name = "gpipe", .micro_batches = 1}, {});
  EXPECT_EQ(explained.explanation.step_time, std::chrono::microseconds(39));
  // Each of the two transfers is on the chain: 1 us of latency, 1 of bandwidth.
  ASSERT_EQ(explained.what_if.size(), 4U);
  EXPECT_EQ(explained.what_if[0].step_time, std::chrono::microseconds(38));
  EXPECT_EQ(explained.what_if[1].step_time, std::chrono::microseconds(38));
  EXPECT_EQ(explained.what_if[2].change, "ops 10 % faster on gpu:1");
  EXPECT_EQ(explained.what_if[2].step_time, std::chrono::nanoseconds(39'000 - 1'800));
  EXPECT_EQ(explained.what_if[3].step_time, std::chrono::nanoseconds(39'000 - 3'500));
  std::ostringstream text;
  experiments::PrintExplainedSchedule(text, explained, cluster);
  EXPECT_THAT(text.str(), HasSubstr("gpipe, 1 micro-batch: "));
  EXPECT_THAT(text.str(), HasSubstr("Slack: 4 of 4 actions have none"));
  std::ostringstream json;
  experiments::WriteExplainedSchedule(json, explained, graph, cluster);
  const nlohmann::json written = nlohmann::json::parse(json.str());
  EXPECT_EQ(written.at("chain").at("transfer_us"), 4);
  EXPECT_EQ(written.at("chain").at("parts").size(), 7U);
  EXPECT_EQ(written.at("devices").at(1).at("waiting_for_transfers_us"), 2);
}

// Links that devices share get wider too.
TEST(ExplainedScheduleTest, SharedLinksAreScaled) {
  std::vector<OpSpec> ops = {MakeOp("f0", 4, {}, {1000}), MakeOp("f1", 6, {"f0"}, {1000}),
                             MakeOp("b1", 12, {"f1"}, {1000}), MakeOp("b0", 8, {"b1", "f0"})};
  ops[0].pass = ops[1].pass = Pass::kForward;
  ops[2].pass = ops[3].pass = Pass::kBackward;
  const Graph graph = Build(ops);
  std::vector<Topology::Link> links;
  for (const std::uint32_t device : {0U, 1U}) {
    links.push_back({device, 2, 1, 0});
    links.push_back({2, device, 1, 0});
  }
  const Cluster cluster("star", "", RowOfDevices(2), Topology(2, {"hub"}, links), Channels::kPerDevice);
  Placement placement(graph.num_ops());
  for (const char* const op : {"f1", "b1"}) placement[*graph.FindOp(op)] = MakeId<DeviceId>(1);
  const experiments::ExplainedSchedule explained = experiments::MakeExplainedSchedule(
      graph, cluster, MeasuredCosts(graph, cluster), placement, {.name = "gpipe", .micro_batches = 1}, {});
  EXPECT_EQ(explained.what_if[0].step_time, explained.explanation.step_time - std::chrono::microseconds(1));
}

}  // namespace schedule_explanation_report_test
}  // namespace emplace::testing
