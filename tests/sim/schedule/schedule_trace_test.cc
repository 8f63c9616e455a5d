#include "sim/schedule/schedule_trace.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "tests/testing/graphs.h"

namespace emplace::testing {
namespace {

TEST(ScheduleTraceTest, ShowsActionsAndFinalOps) {
  // One stage on gpu:1: 0F0 0-4, 0F1 4-8, 0I0 8-11 and so on, then the update.
  std::vector<OpSpec> ops = {MakeOp("f", 4), MakeOp("b", 3, {"f"}), MakeOp("g", 2, {"b"}), MakeOp("u\"", 1, {"g"})};
  ops[0].pass = Pass::kForward;
  ops[1].pass = Pass::kBackward;
  ops[2].pass = Pass::kBackward;
  ops[3].pass = Pass::kUpdate;
  const Graph graph = Build(ops);
  const Cluster cluster = MakeCluster(2);
  const Placement placement(graph.num_ops(), MakeId<DeviceId>(1));
  const CostTable costs = MeasuredCosts(graph, cluster);
  const PlacedPipeline pipeline = MakePlacedPipeline(graph, cluster, costs, placement, {0}, "zb-h1");
  const PipelineSchedule schedule = MakeSchedule(ParseScheduleName("zb-h1", ""), 1, 2);
  EXPECT_EQ(ActionTime(pipeline.model.stages[0], ActionKind::kBackward), std::chrono::microseconds(5));
  std::ostringstream out;
  WriteScheduleTrace(out, schedule, pipeline, SimulateSchedule(schedule, pipeline.model), graph, cluster);
  std::string told;
  const nlohmann::json trace = nlohmann::json::parse(out.str());
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") == "M") {
      told += event.at("args").at("name").get<std::string>() + "; ";
      continue;
    }
    EXPECT_EQ(event.at("pid"), 1);
    told += event.at("name").get<std::string>() + " " + event.at("cat").get<std::string>() + " " +
            event.at("ts").dump() + " " + event.at("dur").dump() + "; ";
  }
  EXPECT_EQ(
      told,
      "gpu:0; gpu:1; 0F0 forward 0 4; 0I0 backward input 4 3; 0W0 backward weight 7 2; 0F1 forward 9 4; 0I1 backward "
      "input 13 3; 0W1 backward weight 16 2; u\" update 18 1; ");
}

}  // namespace
}  // namespace emplace::testing
