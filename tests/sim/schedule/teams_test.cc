#include "sim/schedule/teams.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/graph_algorithms.h"
#include "sim/network/collective_times.h"
#include "sim/schedule/placed_pipeline.h"
#include "sim/schedule/schedule.h"
#include "sim/schedule/schedule_simulator.h"
#include "tests/testing/errors.h"
#include "tests/testing/graphs.h"

namespace emplace {
namespace teams_test {

using ::emplace::testing::Build;
using ::emplace::testing::ErrorOf;
using ::emplace::testing::MakeOp;
using ::emplace::testing::MeasuredCosts;
using ::emplace::testing::RowOfDevices;
using std::chrono::microseconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Links on which everything takes no time.
Cluster Devices(std::size_t count) {
  return Cluster::Uniform("c", RowOfDevices(count), {.bandwidth_gb_per_s = 1e6}, Channels::kPerPair);
}

struct Step {
  std::vector<OpSpec> specs;
  std::map<std::string, std::size_t> devices;

  void Add(Pass pass, std::size_t device, const std::string& name, double micros,
           const std::vector<std::string>& inputs, const std::string& group = {}) {
    OpSpec spec = MakeOp(name, micros, inputs, {pass == Pass::kUpdate && group.empty() ? 0 : 8});
    spec.pass = pass;
    if (!group.empty()) {
      spec.kind = "all_reduce";
      spec.attrs = R"({"group":")" + group + R"("})";
    }
    specs.push_back(spec);
    devices[name] = device;
  }

  Placement Placed(const Graph& graph) const {
    Placement placement(graph.num_ops());
    for (const auto& [name, device] : devices) placement[*graph.FindOp(name)] = MakeId<DeviceId>(device);
    return placement;
  }
};

// Two stages of each replica, `parts` devices for each. A stage takes 3 us forward, of which a collective 1, and then
// 2 us for the input's gradients and 4 us for the weights'. An update of 5 us follows a sum over replicas of 10 us.
Step MakeStep(std::size_t replicas, std::size_t parts) {
  Step step;
  for (std::size_t r = 0; r < replicas; ++r) {
    for (std::size_t t = 0; t < parts; ++t) {
      const std::string prefix = "r" + std::to_string(r) + "t" + std::to_string(t);
      const std::string of_parts = "r" + std::to_string(r);
      const auto device = [&](std::size_t stage) { return (stage * replicas + r) * parts + t; };
      std::string before;
      for (std::size_t stage = 0; stage < 2; ++stage) {
        const std::string s = std::to_string(stage);
        step.Add(Pass::kForward, device(stage), prefix + "f" + s, 2,
                 before.empty() ? std::vector<std::string>{} : std::vector{before});
        step.Add(Pass::kForward, device(stage), prefix + "g" + s, 1, {prefix + "f" + s}, of_parts + "forward" + s);
        before = prefix + "g" + s;
      }
      for (const std::size_t stage : {1U, 0U}) {
        const std::string s = std::to_string(stage);
        step.Add(Pass::kBackward, device(stage), prefix + "d" + s, 2, {before});
        step.Add(Pass::kBackward, device(stage), prefix + "w" + s, 4, {prefix + "d" + s});
        // The last gradient of the input must have a reader that is not an update.
        if (stage == 0) step.Add(Pass::kBackward, device(0), prefix + "x", 0, {prefix + "d0"});
        step.Add(Pass::kUpdate, device(stage), prefix + "sum" + s, 10, {prefix + "w" + s},
                 "t" + std::to_string(t) + "sum" + s);
        step.Add(Pass::kUpdate, device(stage), prefix + "u" + s, 5, {prefix + "sum" + s});
        before = prefix + "d" + s;
      }
    }
  }
  return step;
}

ScheduleResult RunStep(const Step& step, const Graph& graph, const Cluster& cluster, std::size_t micro_batches,
                       PlacedPipeline* pipeline) {
  const CostTable costs = MeasuredCosts(graph, cluster);
  const Placement placement = step.Placed(graph);
  const PipelineSchedule schedule =
      MakeSchedule(ParseScheduleName("1f1b", ""), CountStageDevices(graph, cluster, costs, placement), micro_batches);
  *pipeline = MakePlacedPipeline(graph, cluster, costs, placement, RankOfStage(schedule), "1f1b");
  EXPECT_EQ(RankOfStage(OnRanksOf(pipeline->model, schedule)), pipeline->model.rank_of_stage);
  return SimulateSchedule(schedule, pipeline->model);
}

TEST(TeamsTest, DevicesOfACollectiveAreATeamAndReplicasArePipelines) {
  const Step step = MakeStep(2, 2);
  const Graph graph = Build(step.specs);
  const Cluster cluster = Devices(9);
  const CostTable costs = MeasuredCosts(graph, cluster);
  const Placement placement = step.Placed(graph);
  const PlacedGraph placed{graph, cluster, costs, placement};
  const Teams teams = FindTeams(placed, PipelineRoles(placed));
  const auto id = [](std::size_t device) { return MakeId<DeviceId>(device); };
  EXPECT_THAT(teams.members, ElementsAre(ElementsAre(id(0), id(1)), ElementsAre(id(2), id(3)),
                                         ElementsAre(id(4), id(5)), ElementsAre(id(6), id(7))));
  EXPECT_THAT(teams.pipelines, ElementsAre(ElementsAre(0, 2), ElementsAre(1, 3)));
  EXPECT_THAT(teams.pipeline_of_team, ElementsAre(0, 1, 0, 1));
  EXPECT_EQ(teams.team_of_device[8], Teams::kNone);
  EXPECT_EQ(CountStageDevices(graph, cluster, costs, placement), 2U);
}

// By hand: p = 2, F = 3, I + W = 6: (M + 1) * 9 us, then 10 us of a sum and 5 us of an update on the first stage, which
// is the last to be done.
TEST(TeamsTest, ReplicasAndPartsTakeTheClosedForm) {
  for (const std::size_t replicas : {1U, 2U, 3U}) {
    for (const std::size_t parts : {1U, 2U}) {
      const Step step = MakeStep(replicas, parts);
      const Graph graph = Build(step.specs);
      PlacedPipeline pipeline;
      for (const std::size_t micro_batches : {2U, 5U}) {
        const ScheduleResult result = RunStep(step, graph, Devices(12), micro_batches, &pipeline);
        const auto actions = 9 * static_cast<std::int64_t>(micro_batches + 1);
        EXPECT_EQ(result.step_time, microseconds(actions + 10 + 5)) << replicas << " " << parts;
        // Without time for collectives: F = 2, and no sum.
        EXPECT_EQ(result.exposed_communication,
                  microseconds(actions + 15 - (8 * static_cast<std::int64_t>(micro_batches + 1) + 5)));
        EXPECT_EQ(result.max_load, microseconds(9));
        for (std::size_t rank = 0; rank < 2 * replicas * parts; ++rank) {
          EXPECT_EQ(result.ranks[rank].busy, microseconds(9 * static_cast<std::int64_t>(micro_batches) + 5)) << rank;
        }
      }
      EXPECT_EQ(pipeline.model.teams.size(), 2 * replicas);
      EXPECT_EQ(pipeline.model.stages.front().communication[0], microseconds(1));
      EXPECT_EQ(pipeline.final_ops.size(), pipeline.model.final_ops.size());
    }
  }
}

TEST(TeamsTest, ATeamIsAsSlowAsItsSlowestMember) {
  Step step = MakeStep(1, 2);
  for (OpSpec& spec : step.specs) {
    if (spec.name == "r0t1f0") spec.time_micros = 7;  // before the collective
    if (spec.name == "r0t0w0") spec.time_micros = 9;  // after it
  }
  const Graph graph = Build(step.specs);
  PlacedPipeline pipeline;
  const ScheduleResult result = RunStep(step, graph, Devices(4), 1, &pipeline);
  // 0F 8, 1F 3, 1B 6, 0B 11.
  EXPECT_EQ(result.step_time, microseconds(8 + 3 + 6 + 11 + 10 + 5));
  for (const std::size_t stage : {0U, 1U}) {
    EXPECT_EQ(pipeline.model.stages[stage].forward, microseconds(8));
    EXPECT_EQ(pipeline.model.stages[stage].backward_weight, microseconds(9));
    EXPECT_EQ(pipeline.model.stages[stage].communication[0], microseconds(1));
  }
}

TEST(TeamsTest, FinalOpsRunBesideSumsThatTheyDoNotRead) {
  Step step = MakeStep(2, 1);
  step.Add(Pass::kUpdate, 0, "r0t0z", 8, {"r0t0w0"});  // by id behind the sum of its device
  const Graph graph = Build(step.specs);
  PlacedPipeline pipeline;
  const ScheduleResult result = RunStep(step, graph, Devices(4), 2, &pipeline);
  EXPECT_EQ(result.step_time, microseconds(27 + 10 + 5));
  const auto start = [&](const std::string& name) {
    for (std::size_t i = 0; i < pipeline.final_ops.size(); ++i) {
      if (graph.op(pipeline.final_ops[i]).name == name) return result.final_starts[i];
    }
    return Duration(-1);
  };
  EXPECT_EQ(start("r0t0sum0"), microseconds(27));
  EXPECT_EQ(start("r1t0sum0"), microseconds(27));
  EXPECT_EQ(start("r0t0u0"), microseconds(37));
}

// 1 us to issue an op, 2 us from there to its start.
TEST(TeamsTest, AnIssueLaneIssuesTheOpsOfAPart) {
  std::vector<Device> devices = RowOfDevices(2);
  for (Device& device : devices) device.issue = IssueLane{.host_micros = 1, .launch_latency_micros = 2};
  const Cluster cluster = Cluster::Uniform("c", devices, {.bandwidth_gb_per_s = 1e6}, Channels::kPerPair);
  Step step;
  step.Add(Pass::kForward, 0, "a", 0.5, {});
  step.Add(Pass::kForward, 0, "b", 0.5, {"a"});
  step.Add(Pass::kForward, 0, "c", 9, {"b"});
  step.Add(Pass::kForward, 1, "d", 9, {"c"});
  step.Add(Pass::kForward, 1, "e", 1, {"d"});
  step.Add(Pass::kBackward, 1, "g", 4, {"e"});
  step.Add(Pass::kBackward, 0, "h", 4, {"g"});
  const Graph graph = Build(step.specs);
  const CostTable costs = MeasuredCosts(graph, cluster);
  const PlacedPipeline pipeline = MakePlacedPipeline(graph, cluster, costs, step.Placed(graph), {0, 1}, "s");
  EXPECT_EQ(pipeline.model.stages[0].forward, microseconds(3 + 2 + 9));      // the third is issued at 3
  EXPECT_EQ(pipeline.model.stages[1].forward, microseconds(1 + 2 + 9 + 1));  // the second was issued meanwhile
  EXPECT_EQ(pipeline.model.stages[0].backward_input, microseconds(1 + 2 + 4));
}

TEST(TeamsTest, APairOfFinalOpsTakesTheLinkOfItsDirection) {
  std::vector<Link> links(4, {.bandwidth_gb_per_s = 10});
  links[1] = {.bandwidth_gb_per_s = 1e-6};  // from the first device to the second one
  const Cluster cluster("c", "", RowOfDevices(2), links, Channels::kPerDevice);
  Step step;
  step.Add(Pass::kForward, 0, "f", 1, {});
  step.Add(Pass::kForward, 1, "g", 1, {"f"});
  step.Add(Pass::kUpdate, 1, "s", 0, {"g"}, "p");
  step.Add(Pass::kUpdate, 0, "t", 0, {}, "p");
  for (OpSpec& spec : step.specs) {
    if (spec.name == "s") spec.kind = "send";
    if (spec.name == "t") spec.kind = "recv";
    if (spec.pass == Pass::kUpdate) spec.time_micros.reset();
  }
  const Graph graph = Build(step.specs);
  const CostTable costs = MeasuredCosts(graph, cluster);
  const PlacedPipeline pipeline = MakePlacedPipeline(graph, cluster, costs, step.Placed(graph), {0, 1}, "s");
  ASSERT_EQ(pipeline.model.final_collectives.size(), 1U);
  EXPECT_GT(pipeline.model.final_collectives[0].time, microseconds(20));
  EXPECT_LT(pipeline.model.final_collectives[0].time, microseconds(60));
  EXPECT_THAT(DevicesOf(graph.collectives()[0], step.Placed(graph).devices()),
              ElementsAre(MakeId<DeviceId>(1), MakeId<DeviceId>(0)));
}

TEST(TeamsTest, WhatIsNoTeamIsRefused) {
  const auto refusal = [](const Step& step) {
    return ErrorOf([&] {
      PlacedPipeline pipeline;
      RunStep(step, Build(step.specs), Devices(6), 2, &pipeline);
    });
  };
  Step uneven = MakeStep(2, 1);
  uneven.devices["r1t0f1"] = uneven.devices["r1t0g1"] = uneven.devices["r1t0d1"] = uneven.devices["r1t0w1"] = 1;
  EXPECT_THAT(refusal(uneven), HasSubstr("has replicas with 2 and 1 stages, from d0 and d1 on (as many in each)"));
  Step mixed = MakeStep(1, 2);
  for (OpSpec& spec : mixed.specs) {
    if (spec.name == "r0t1g0") spec.attrs = R"({"group":"r0forward1"})";
    if (spec.name == "r0t1g1") spec.attrs = R"({"group":"r0forward0"})";
  }
  EXPECT_THAT(refusal(mixed), HasSubstr("can never start"));
  Step passes = MakeStep(2, 1);
  for (OpSpec& spec : passes.specs) {
    if (spec.name == "r1t0sum1") spec.attrs = R"({"group":"r0forward1"})";
  }
  EXPECT_THAT(refusal(passes), HasSubstr("is in the group \"r0forward1\" with"));
  Step sends = MakeStep(1, 1);
  sends.specs[1].kind = "send";
  sends.specs[1].attrs = R"({"group":"p"})";
  sends.Add(Pass::kForward, 0, "r", 0, {});
  sends.specs.back().kind = "recv";
  sends.specs.back().attrs = R"({"group":"p"})";
  EXPECT_THAT(refusal(sends), HasSubstr("a stage's tensors go to their readers without"));
}

TEST(TeamsTest, CollectivesHaveOneOrder) {
  const Step step = MakeStep(2, 2);
  const Graph graph = Build(step.specs);
  const std::vector<OpId> order = OrderOfCollectives(graph);
  std::vector<std::size_t> position(graph.num_ops());
  for (std::size_t i = 0; i < order.size(); ++i) position[Index(order[i])] = i;
  for (std::size_t i = 0; i < graph.num_ops(); ++i) {
    for (const TensorId input : graph.inputs(MakeId<OpId>(i))) {
      EXPECT_LT(position[Index(graph.tensor(input).producer)], position[i]);
    }
  }
  for (const Collective& collective : graph.collectives()) {
    for (std::size_t k = 1; k < collective.members.size(); ++k) {
      EXPECT_EQ(position[Index(collective.members[k])], position[Index(collective.members[0])] + k);
    }
  }
  // Without collectives it is the order of ids.
  const std::vector<OpId> plain = OrderOfCollectives(testing::MakeForkJoin(5, 1, 1));
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_EQ(Index(plain[i]), i);
}

}  // namespace teams_test
}  // namespace emplace
