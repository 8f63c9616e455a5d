#include "sim/schedule/placed_pipeline.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/check.h"
#include "sim/base/rng.h"
#include "sim/formats/result_json.h"
#include "sim/schedule/pipeline_stages.h"
#include "sim/simulator.h"
#include "tests/testing/graphs.h"

namespace emplace::testing {
namespace {

using std::chrono::microseconds;
using ::testing::ElementsAre;
using ::testing::UnorderedElementsAre;

OpSpec PassOp(Pass pass, const std::string& name, double micros, std::vector<std::string> inputs, std::int64_t bytes) {
  OpSpec spec = MakeOp(name, micros, std::move(inputs), {bytes});
  spec.pass = pass;
  return spec;
}

OpSpec SourceOp(const std::string& kind, const std::string& name, std::int64_t bytes) {
  OpSpec spec = PassOp(Pass::kForward, name, 0, {}, bytes);
  spec.kind = kind;
  return spec;
}

// A training step of two layers. Backward: d1 is the gradient that layer 1 hands to layer 0; g1 and g0 are of weights.
std::vector<OpSpec> TwoLayers() {
  return {SourceOp("input", "x", 100),
          SourceOp("variable", "w0", 400),
          SourceOp("variable", "w1", 500),
          PassOp(Pass::kForward, "f0", 3, {"x", "w0"}, 1000),
          PassOp(Pass::kForward, "f1", 4, {"f0", "w1"}, 2000),
          PassOp(Pass::kBackward, "d1", 5, {"f1", "w1"}, 1000),
          PassOp(Pass::kBackward, "g1", 2, {"f1", "f0"}, 500),
          PassOp(Pass::kBackward, "g0", 1, {"d1", "x"}, 400),
          PassOp(Pass::kUpdate, "u0", 6, {"g0", "w0"}, 0),
          PassOp(Pass::kUpdate, "u1", 7, {"g1", "w1"}, 0)};
}

Placement On(const Graph& graph, const std::map<std::string, std::size_t>& devices) {
  Placement placement(graph.num_ops());
  for (const auto& [name, device] : devices) placement[*graph.FindOp(name)] = MakeId<DeviceId>(device);
  return placement;
}

PlacedPipeline PipelineOf(const Graph& graph, const Cluster& cluster, const Placement& placement,
                          const std::vector<std::size_t>& rank_of_stage) {
  return MakePlacedPipeline(graph, cluster, MeasuredCosts(graph, cluster), placement, rank_of_stage, "s");
}

std::string RefusalOfPlacement(const Graph& graph, const Cluster& cluster, const Placement& placement,
                               const std::vector<std::size_t>& rank_of_stage) {
  try {
    PipelineOf(graph, cluster, placement, rank_of_stage);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(PlacedPipelineTest, StagesAreDevicesInTheOrderOfTheForwardPass) {
  const Graph graph = Build(TwoLayers());
  const Cluster cluster = MakeCluster(3);
  // The pipeline goes from gpu:1 to gpu:0; gpu:2 has nothing.
  const Placement placement = On(graph, {{"x", 1}, {"w0", 1}, {"f0", 1}, {"g0", 1}, {"u0", 1}});
  EXPECT_EQ(CountStageDevices(graph, cluster, MeasuredCosts(graph, cluster), placement), 2U);
  const PlacedPipeline pipeline = PipelineOf(graph, cluster, placement, {0, 1});
  EXPECT_THAT(pipeline.devices, ElementsAre(MakeId<DeviceId>(1), MakeId<DeviceId>(0), MakeId<DeviceId>(2)));
  ASSERT_EQ(pipeline.model.stages.size(), 2U);
  EXPECT_EQ(pipeline.model.stages[0].forward, microseconds(3));
  EXPECT_EQ(pipeline.model.stages[0].backward_input, microseconds(0));
  EXPECT_EQ(pipeline.model.stages[0].backward_weight, microseconds(1));
  EXPECT_EQ(pipeline.model.stages[1].forward, microseconds(4));
  EXPECT_EQ(pipeline.model.stages[1].backward_input, microseconds(5));
  EXPECT_EQ(pipeline.model.stages[1].backward_weight, microseconds(2));
  EXPECT_EQ(pipeline.roles[Index(*graph.FindOp("w1"))], PipelineRole::kSourceOp);
  EXPECT_EQ(pipeline.roles[Index(*graph.FindOp("d1"))], PipelineRole::kInputOp);
  EXPECT_EQ(pipeline.roles[Index(*graph.FindOp("g1"))], PipelineRole::kWeightOp);
  EXPECT_EQ(pipeline.roles[Index(*graph.FindOp("u1"))], PipelineRole::kFinalOp);
}

TEST(PlacedPipelineTest, AStepOfTwoMicroBatchesTakesWhatHandSays) {
  // 0F 0-3, 3-6; 1F 4-8, 8-12; 1B 12-19, 19-26; 0B 20-21, 27-28; u0 28-34, u1 26-33.
  const Graph graph = Build(TwoLayers());
  const Cluster cluster = MakeCluster(2);
  const Placement placement = On(graph, {{"w1", 1}, {"f1", 1}, {"d1", 1}, {"g1", 1}, {"u1", 1}});
  const PlacedPipeline pipeline = PipelineOf(graph, cluster, placement, {0, 1});
  const PipelineSchedule schedule = MakeSchedule(ParseScheduleName("gpipe", ""), 2, 2);
  const ScheduleResult result = SimulateSchedule(schedule, pipeline.model);
  EXPECT_EQ(result.step_time, microseconds(34));
  EXPECT_THAT(result.starts[0], ElementsAre(microseconds(0), microseconds(3), microseconds(20), microseconds(27)));
  EXPECT_THAT(result.starts[1], ElementsAre(microseconds(4), microseconds(8), microseconds(12), microseconds(19)));
  EXPECT_EQ(result.ranks[1].busy, microseconds(2 * 11 + 7));
  EXPECT_EQ(result.max_load, microseconds(11));
  // gpu:0 at 3: w0, two inputs until the end of the backward, the first f0 until it has arrived, the second being made.
  EXPECT_EQ(result.ranks[0].peak, Bytes{400 + 2 * 100 + 1000 + 1000});
  // gpu:1 in 1B of the first: w1 and its gradient, both f0 and f1, and d1 and g1 being made.
  EXPECT_EQ(result.ranks[1].peak, Bytes{500 + 500 + 2 * 1000 + 2 * 2000 + 1000 + 500});
}

TEST(PlacedPipelineTest, WeightsAreSentOnceAndInputsForEachMicroBatch) {
  // w0 and x are on gpu:1, which has no stage.
  const Graph graph = Build(TwoLayers());
  const Cluster cluster = MakeCluster(2);
  const PlacedPipeline pipeline = PipelineOf(graph, cluster, On(graph, {{"w0", 1}, {"x", 1}, {"u0", 1}}), {0});
  std::vector<std::pair<bool, std::int64_t>> early;
  for (const PipelineMessage& message : pipeline.model.messages) {
    if (!message.after && message.route.from != message.route.to)
      early.emplace_back(message.once, message.route.size.count);
  }
  EXPECT_THAT(early, UnorderedElementsAre(std::pair(true, 400), std::pair(false, 100)));
  // The gradient of w0 goes to its update at the end.
  ASSERT_EQ(pipeline.model.final_messages.size(), 1U);
  EXPECT_EQ(pipeline.model.final_messages[0].route.size, Bytes{400});
  EXPECT_EQ(pipeline.model.final_messages[0].after, std::nullopt);
}

TEST(PlacedPipelineTest, SumsOfSeveralStagesGradientsRunAtTheEnd) {
  // Both layers use w0. Its gradient is the sum of two parts, of stage 0 and of stage 1.
  std::vector<OpSpec> ops = TwoLayers();
  ops.push_back(PassOp(Pass::kBackward, "h1", 2, {"f1"}, 400));
  ops.push_back(PassOp(Pass::kBackward, "sum", 1, {"g0", "h1"}, 400));
  ops[8] = PassOp(Pass::kUpdate, "u0", 6, {"sum", "w0"}, 0);
  const Graph graph = Build(ops);
  const Cluster cluster = MakeCluster(2);
  const Placement placement = On(graph, {{"w1", 1}, {"f1", 1}, {"d1", 1}, {"g1", 1}, {"u1", 1}, {"h1", 1}});
  const PlacedPipeline split = PipelineOf(graph, cluster, placement, {0, 1});
  EXPECT_EQ(split.roles[Index(*graph.FindOp("h1"))], PipelineRole::kWeightOp);
  EXPECT_EQ(split.roles[Index(*graph.FindOp("sum"))], PipelineRole::kFinalOp);
  EXPECT_EQ(split.model.final_messages.size(), 1U);
  const PlacedPipeline together = PipelineOf(graph, cluster, Placement(graph.num_ops()), {0});
  EXPECT_EQ(together.roles[Index(*graph.FindOp("sum"))], PipelineRole::kWeightOp);
}

// Both ops of stage 0 use w. Their gradients are added on its device, for each micro-batch.
TEST(PlacedPipelineTest, ASumWithinAStageRunsForEachMicroBatch) {
  const std::vector<OpSpec> ops = {SourceOp("input", "x", 100),
                                   SourceOp("variable", "w", 400),
                                   PassOp(Pass::kForward, "fa", 1, {"x", "w"}, 1000),
                                   PassOp(Pass::kForward, "fb", 1, {"fa", "w"}, 1000),
                                   PassOp(Pass::kForward, "f1", 2, {"fb"}, 1000),
                                   PassOp(Pass::kForward, "f2", 2, {"f1"}, 1000),
                                   PassOp(Pass::kForward, "f3", 2, {"f2"}, 1000),
                                   PassOp(Pass::kBackward, "d3", 2, {"f3"}, 1000),
                                   PassOp(Pass::kBackward, "d2", 2, {"d3", "f2"}, 1000),
                                   PassOp(Pass::kBackward, "d1", 2, {"d2", "f1"}, 1000),
                                   PassOp(Pass::kBackward, "db", 1, {"d1", "fb"}, 1000),
                                   PassOp(Pass::kBackward, "gb", 1, {"d1", "fa"}, 400),
                                   PassOp(Pass::kBackward, "ga", 1, {"db", "x"}, 400),
                                   PassOp(Pass::kBackward, "sum", 10, {"ga", "gb"}, 400),
                                   PassOp(Pass::kUpdate, "u", 1, {"sum", "w"}, 0)};
  const Graph graph = Build(ops);
  const PlacedPipeline pipeline =
      PipelineOf(graph, MakeCluster(2), On(graph, {{"f1", 1}, {"f3", 1}, {"d3", 1}, {"d1", 1}}), {0, 1, 0, 1});
  const OpId sum = *graph.FindOp("sum");
  EXPECT_EQ(pipeline.roles[Index(sum)], PipelineRole::kWeightOp);
  EXPECT_EQ(pipeline.stages[Index(sum)], 0U);
}

TEST(PlacedPipelineTest, ADeviceThatCopiesByItselfHasOneChannel) {
  const Graph graph = Build({PassOp(Pass::kForward, "f0", 1, {}, 1000), PassOp(Pass::kForward, "f1", 1, {"f0"}, 1000),
                             PassOp(Pass::kForward, "f2", 1, {"f0", "f1"}, 1000)});
  for (const bool copy_engine : {false, true}) {
    std::vector<Device> devices = MakeCluster(3).devices();
    for (Device& device : devices) device.copy_engine = copy_engine;
    const Cluster cluster =
        Cluster::Uniform("pairs", devices, {.bandwidth_gb_per_s = 1, .latency_micros = 100}, Channels::kPerPair);
    const PlacedPipeline pipeline = PipelineOf(graph, cluster, On(graph, {{"f1", 1}, {"f2", 2}}), {0, 1, 2});
    std::set<std::size_t> channels;
    for (const PipelineMessage& message : pipeline.model.messages) {
      if (message.route.from == 0 && message.route.to != 0) channels.insert(*message.route.channel);
    }
    EXPECT_EQ(channels.size(), copy_engine ? 2U : 1U);
  }
}

// A source's tensor that only an update reads, and a copy that a stage and an update of another device read.
TEST(PlacedPipelineTest, WhatUpdatesReadIsHeldUntilThen) {
  std::vector<OpSpec> ops = TwoLayers();
  ops.push_back(SourceOp("constant", "c", 5'000'000));
  ops[8] = PassOp(Pass::kUpdate, "u0", 6, {"g0", "w0", "c"}, 0);
  ops[9] = PassOp(Pass::kUpdate, "u1", 7, {"g1", "w1", "x"}, 0);
  ops[0] = SourceOp("input", "x", 3'000'000);
  ops[4] = PassOp(Pass::kForward, "f1", 4, {"f0", "w1", "x"}, 2000);
  const Graph graph = Build(ops);
  const Cluster cluster = MakeCluster(2);
  const Placement placement = On(graph, {{"w1", 1}, {"f1", 1}, {"d1", 1}, {"g1", 1}, {"u1", 1}});
  const PlacedPipeline pipeline = PipelineOf(graph, cluster, placement, {0, 1});
  const ScheduleResult result = SimulateSchedule(MakeSchedule(ParseScheduleName("gpipe", ""), 2, 1), pipeline.model);
  const StepResult fifo = Simulator(graph, cluster, MeasuredCosts(graph, cluster)).Run(placement);
  EXPECT_GE(result.ranks[0].peak, fifo.peak_memory[0]);
  EXPECT_GE(result.ranks[1].peak, fifo.peak_memory[1]);
  const auto held = std::find_if(pipeline.model.messages.begin(), pipeline.model.messages.end(),
                                 [](const PipelineMessage& message) { return message.until_final; });
  ASSERT_NE(held, pipeline.model.messages.end());
  EXPECT_EQ(held->route.size, Bytes{3'000'000});
}

// Forward ops f0, f1, .. in a chain.
Graph ForwardChain(std::size_t length) {
  std::vector<OpSpec> ops;
  for (std::size_t i = 0; i < length; ++i) {
    const std::vector<std::string> inputs =
        i == 0 ? std::vector<std::string>() : std::vector<std::string>{"f" + std::to_string(i - 1)};
    ops.push_back(PassOp(Pass::kForward, "f" + std::to_string(i), 1, inputs, 10));
  }
  return Build(ops);
}

TEST(PlacedPipelineTest, SeveralRunsOnADeviceAreItsStages) {
  const Graph graph = ForwardChain(8);
  const Cluster cluster = MakeCluster(2);
  Placement looped(8);  // 0 0 1 1 0 0 1 1
  Placement folded(8);  // 0 0 1 1 1 1 0 0
  for (std::size_t i = 0; i < 8; ++i) {
    looped[*graph.FindOp("f" + std::to_string(i))] = MakeId<DeviceId>(i / 2 % 2);
    folded[*graph.FindOp("f" + std::to_string(i))] = MakeId<DeviceId>(i / 2 == 1 || i / 2 == 2 ? 1 : 0);
  }
  for (const auto& [placement, rank_of_stage] : {std::pair(looped, std::vector<std::size_t>{0, 1, 0, 1}),
                                                 std::pair(folded, std::vector<std::size_t>{0, 1, 1, 0})}) {
    const PlacedPipeline pipeline = PipelineOf(graph, cluster, placement, rank_of_stage);
    for (std::size_t i = 0; i < 8; ++i)
      EXPECT_EQ(pipeline.stages[Index(*graph.FindOp("f" + std::to_string(i)))], i / 2);
  }
  EXPECT_EQ(RefusalOfPlacement(graph, cluster, looped, {0, 1, 1, 0}),
            "s: needs stages (4) on devices in the order 0 1 1 0 (the placement has them on gpu:0 gpu:1 gpu:0 gpu:1)");
  EXPECT_EQ(
      RefusalOfPlacement(graph, cluster, looped, {0, 1}),
      "devices[\"f4\"]: is on gpu:0 and reads \"f3\" on gpu:1, which goes back to \"f1\" on gpu:0 (a stage reads from "
      "earlier stages only, and each device has one)");
  EXPECT_EQ(RefusalOfPlacement(graph, cluster, Placement(8), {0, 1}),
            "s: needs stages (2) on devices in the order 0 1 (the placement has them on gpu:0)");
}

// A training step of layers that take 1 us for F, I and W each, and send 0 bytes.
Graph EqualLayers(std::size_t layers) {
  std::vector<OpSpec> ops;
  for (std::size_t i = 0; i < layers; ++i) {
    const std::string own = std::to_string(i);
    const auto of = [](const std::string& stem, std::size_t layer) { return stem + std::to_string(layer); };
    ops.push_back(PassOp(Pass::kForward, "f" + own, 1,
                         i == 0 ? std::vector<std::string>() : std::vector<std::string>{of("f", i - 1)}, 0));
    std::vector<std::string> read = {"f" + own};
    if (i + 1 < layers) read.push_back(of("d", i + 1));
    ops.push_back(PassOp(Pass::kBackward, "d" + own, 1, read, 0));
    ops.push_back(PassOp(Pass::kBackward, "g" + own, 1, read, 0));
    ops.push_back(PassOp(Pass::kUpdate, "u" + own, 0, {"g" + own}, 0));
  }
  return Build(ops);
}

TEST(PlacedPipelineTest, ClosedFormsHoldForPlacedGraphs) {
  for (std::size_t p = 1; p <= 4; ++p) {
    for (const std::string text : {"1f1b", "zb-h1", "interleaved:2", "zb-v"}) {
      const ScheduleName name = ParseScheduleName(text, "");
      const std::vector<std::size_t> rank_of_stage = RankOfStage(name, p);
      const std::size_t layers = rank_of_stage.size();
      const Graph graph = EqualLayers(layers);
      std::map<std::string, std::size_t> devices;
      for (std::size_t i = 0; i < layers; ++i) {
        for (const std::string stem : {"f", "d", "g", "u"}) devices[stem + std::to_string(i)] = rank_of_stage[i];
      }
      const std::size_t m = 4 * p;
      const PlacedPipeline pipeline = PipelineOf(graph, MakeCluster(p), On(graph, devices), rank_of_stage);
      for (std::size_t i = 0; i < layers; ++i) {
        for (const std::string stem : {"f", "d", "g"}) {
          EXPECT_EQ(pipeline.stages[Index(*graph.FindOp(stem + std::to_string(i)))], i) << text << p << stem;
        }
      }
      const ScheduleResult result = SimulateSchedule(MakeSchedule(name, p, m), pipeline.model);
      const std::map<std::string, std::size_t> ramps = {
          {"1f1b", 3 * (p - 1)}, {"zb-h1", p - 1}, {"interleaved:2", 3 * (p - 1)}, {"zb-v", p - 1}};
      EXPECT_EQ(result.step_time, microseconds(3 * m * name.chunks + ramps.at(text))) << text << p;
    }
  }
}

TEST(PlacedPipelineTest, AScatteredGradientIsASumOfTheOneThatIsAsLarge) {
  std::vector<OpSpec> ops = TwoLayers();
  ops.push_back(PassOp(Pass::kBackward, "h1", 2, {"f1"}, 400));
  ops.push_back(PassOp(Pass::kBackward, "rows", 1, {"d1"}, 40));
  ops.push_back(PassOp(Pass::kBackward, "sum", 1, {"h1", "rows", "x"}, 400));
  ops.back().kind = "scatter_add";
  ops[7] = PassOp(Pass::kBackward, "g0", 1, {"d1", "x"}, 0);
  ops[8] = PassOp(Pass::kUpdate, "u0", 6, {"sum", "w0"}, 0);
  const Graph graph = Build(ops);
  const PlacedPipeline pipeline = PipelineOf(graph, MakeCluster(1), Placement(graph.num_ops()), {0});
  EXPECT_EQ(pipeline.roles[Index(*graph.FindOp("sum"))], PipelineRole::kWeightOp);
  EXPECT_EQ(pipeline.roles[Index(*graph.FindOp("h1"))], PipelineRole::kWeightOp);
  EXPECT_EQ(pipeline.roles[Index(*graph.FindOp("rows"))], PipelineRole::kInputOp);
}

TEST(PlacedPipelineTest, PlacementsThatAreNoPipelineAreRefusedWithAnOp) {
  const Graph graph = Build(TwoLayers());
  const Cluster cluster = MakeCluster(3);
  EXPECT_EQ(RefusalOfPlacement(graph, cluster, On(graph, {{"f1", 1}, {"g0", 1}, {"d1", 2}}), {0, 1}),
            "devices[\"d1\"]: is on gpu:2, which has no forward ops (the backward pass is where the forward pass is)");
  EXPECT_EQ(RefusalOfPlacement(graph, cluster, On(graph, {{"f1", 1}, {"g0", 1}}), {0, 1}),
            "devices[\"g0\"]: is on gpu:1 and reads \"d1\" on gpu:0, which comes before it in the pipeline (the "
            "backward pass "
            "goes from the last stage to the first)");
}

TEST(PlacedPipelineTest, GraphsWhosePassesAreMixedAreRefused) {
  const Cluster cluster = MakeCluster(1);
  std::vector<OpSpec> ops = TwoLayers();
  ops.push_back(PassOp(Pass::kForward, "late", 1, {"g0"}, 0));
  Graph graph = Build(ops);
  EXPECT_EQ(
      RefusalOfPlacement(graph, cluster, Placement(graph.num_ops()), {0}),
      "ops[\"late\"]: of the forward pass reads \"g0\" of the backward pass (forward, then backward, then update)");
  // An op of no pass that reads gradients is final.
  ops.back() = PassOp(Pass::kNone, "late", 1, {"g0"}, 0);
  graph = Build(ops);
  const PlacedPipeline pipeline = PipelineOf(graph, cluster, Placement(graph.num_ops()), {0});
  EXPECT_EQ(pipeline.roles[Index(*graph.FindOp("late"))], PipelineRole::kFinalOp);
  const Graph sources = Build({SourceOp("input", "x", 100)});
  EXPECT_THROW(CountStageDevices(sources, cluster, MeasuredCosts(sources, cluster), Placement(1)), InputError);
}

TEST(PlacedPipelineTest, StagesFollowFromRolesAndDevices) {
  const Graph graph = Build(TwoLayers());
  const Cluster cluster = MakeCluster(2, {.bandwidth_gb_per_s = 1, .latency_micros = 0, .gap_micros = 0}, 0.5);
  const CostTable costs = MeasuredCosts(graph, cluster);
  const Placement placement = On(graph, {{"f1", 1}, {"d1", 1}});
  const PlacedGraph placed{graph, cluster, costs, placement};
  EXPECT_EQ(placed.Time(*graph.FindOp("f0")), DurationFromMicros(3.5));  // with the op gap
  EXPECT_EQ(placed.Time(*graph.FindOp("x")), Duration{});
  std::vector<PipelineRole> roles = PipelineRoles(placed);
  EXPECT_EQ(roles[Index(*graph.FindOp("g0"))], PipelineRole::kWeightOp);
  const StageChoice choice = ChooseStages(placed, {0, 1}, "s", &roles);
  EXPECT_EQ(choice.stages[Index(*graph.FindOp("d1"))], 1U);
  EXPECT_EQ(choice.stages[Index(*graph.FindOp("g1"))], 0U);
  std::vector<std::string> read;
  ForEachProducer(graph, *graph.FindOp("g0"), [&](OpId op) { read.emplace_back(graph.op(op).name); });
  EXPECT_THAT(read, ElementsAre("d1", "x"));
}

// One op of each pass on each device, in a chain forward and back: stages lose nothing, so that both simulators agree.
TEST(PlacedPipelineTest, OneMicroBatchOfAChainTakesWhatFifoSays) {
  Rng rng(3);
  for (int round = 0; round < 300; ++round) {
    const std::size_t count = 1 + rng.Below(5);
    const Link link{.bandwidth_gb_per_s = 1,
                    .latency_micros = static_cast<double>(rng.Below(4)),
                    .gap_micros = static_cast<double>(rng.Below(4))};
    const Cluster cluster = MakeCluster(count, link);
    std::vector<OpSpec> ops;
    const auto add = [&](Pass pass, const std::string& name, std::size_t stage,
                         const std::vector<std::string>& inputs) {
      const auto micros = static_cast<double>(1 + rng.Below(9));
      ops.push_back(
          PassOp(pass, name + std::to_string(stage), micros, inputs, static_cast<std::int64_t>(1000 * rng.Below(5))));
    };
    std::map<std::string, std::size_t> devices;
    for (std::size_t s = 0; s < count; ++s) {
      const std::string own = std::to_string(s);
      add(Pass::kForward, "f", s,
          s == 0 ? std::vector<std::string>() : std::vector<std::string>{"f" + std::to_string(s - 1)});
      std::vector<std::string> read = {"f" + own};
      if (s + 1 < count) read.push_back("b" + std::to_string(s + 1));
      add(Pass::kBackward, "b", s, read);
      add(Pass::kUpdate, "u", s, {"b" + own});
      for (const std::string pass : {"f", "b", "u"}) devices[pass + own] = s;
    }
    const Graph graph = Build(ops);
    const Placement placement = On(graph, devices);
    std::vector<std::size_t> rank_of_stage;
    for (std::size_t s = 0; s < count; ++s) rank_of_stage.push_back(s);
    const PlacedPipeline pipeline = PipelineOf(graph, cluster, placement, rank_of_stage);
    const double fifo = Simulator(graph, cluster, MeasuredCosts(graph, cluster)).Run(placement).step_time_micros;
    for (const std::string name : {"gpipe", "1f1b", "zb-h1"}) {
      const PipelineSchedule schedule = MakeSchedule(ParseScheduleName(name, ""), count, 1);
      EXPECT_EQ(MicrosFromDuration(SimulateSchedule(schedule, pipeline.model).step_time), fifo) << round << name;
      const PipelineSchedule more = MakeSchedule(ParseScheduleName(name, ""), count, 1 + rng.Below(6));
      const StepReport report = MakeScheduleReport(graph, cluster, MeasuredCosts(graph, cluster), placement, name, more,
                                                   pipeline, SimulateSchedule(more, pipeline.model));
      EXPECT_LE(report.lower_bound_micros, report.step_time_micros) << round << name;
      const double micro_batches = static_cast<double>(more.micro_batches);
      EXPECT_LE(micro_batches * report.schedule->max_load_micros - link.gap_micros, report.step_time_micros);
    }
  }
}

}  // namespace
}  // namespace emplace::testing
