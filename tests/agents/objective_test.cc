#include "agents/objective.h"

#include <gmock/gmock.h>

#include <optional>
#include <sstream>
#include <string>

#include "agents/heuristics/dp_contiguous.h"
#include "agents/heuristics/load_chain.h"
#include "agents/score.h"
#include "agents/search.h"
#include "agents/throughput/max_load_evaluator.h"
#include "tests/testing/errors.h"
#include "tests/testing/graphs.h"
#include "tests/testing/searches.h"

namespace emplace::testing {
namespace {

using agents::FindObjective;
using agents::Wait;

TEST(ObjectiveTest, IsFoundByText) {
  EXPECT_EQ(FindObjective("").name, "step_time");
  EXPECT_EQ(FindObjective("step_time").name, "step_time");
  EXPECT_EQ(FindObjective("throughput:crossing=host,memory=persistent").name, "throughput");
  const agents::StageCostOptions plain = agents::StageCostOptionsOf("throughput");
  EXPECT_EQ(plain.link, agents::CrossingLink::kDirect);
  EXPECT_EQ(plain.memory, agents::StageMemory::kAll);
  const agents::StageCostOptions set = agents::StageCostOptionsOf("throughput:crossing=host,memory=persistent");
  EXPECT_EQ(set.link, agents::CrossingLink::kHost);
  EXPECT_EQ(set.memory, agents::StageMemory::kPersistent);
  EXPECT_EQ(ErrorOf([] { FindObjective("latency"); }), "unknown objective \"latency\" (step_time, throughput)");
  EXPECT_EQ(ErrorOf([] { FindObjective("throughput:memory=some"); }),
            "throughput.memory: is \"some\" (all, persistent, none)");
  EXPECT_EQ(agents::ListedObjectives().size(), 2U);
}

// The rows that other settings choose.
TEST(ObjectiveTest, SettingsChooseIt) {
  agents::SearchSettings settings;
  EXPECT_EQ(agents::ObjectiveOf(settings).name, "step_time");
  EXPECT_EQ(agents::ObjectiveOf(settings, /*on_devices=*/true).name, "hardware");
  settings.schedule = "1f1b";
  EXPECT_EQ(agents::ObjectiveOf(settings).name, "schedule");
  settings.schedule = "none";
  settings.objective = "throughput";
  EXPECT_EQ(agents::ObjectiveOf(settings).name, "throughput");
}

// Each answers with the value that its report has, and proves no bound above it.
TEST(ObjectiveTest, EvaluatorReportAndBoundAgree) {
  const Graph graph = MakeChain(4, 10, 2000);
  const Cluster cluster = MakeCluster(2);
  const CostTable costs = MeasuredCosts(graph, cluster);
  Placement halves(4);
  for (std::size_t i = 2; i < 4; ++i) halves[MakeId<OpId>(i)] = MakeId<DeviceId>(1);
  for (const agents::ObjectiveEntry& entry : agents::AllObjectives()) {
    SCOPED_TRACE(entry.name);
    agents::SearchSettings settings;
    if (entry.is_listed) settings.objective = entry.name;
    if (entry.name == "schedule") {
      settings.schedule = "gpipe";
      settings.micro_batches = 4;
    }
    const std::optional<ScheduleChoice> schedule = LoadSchedule(settings, agents::Door::kSpec);
    const Simulator simulator(graph, cluster, costs);
    const agents::ObjectiveContext context = {.graph = graph,
                                              .cluster = cluster,
                                              .costs = costs,
                                              .settings = settings,
                                              .schedule = schedule,
                                              .evaluator = entry.name == "hardware" ? &simulator : nullptr};
    const auto objective = agents::MakeObjective(context);
    const StepResult result = objective->evaluator().Run(halves);
    StepReport report = objective->Report(halves, objective->RunWithPeakMemory(halves));
    EXPECT_EQ(report.step_time_micros, result.step_time_micros);
    SetLowerBound(context, &report);
    EXPECT_LE(report.lower_bound_micros, report.step_time_micros);
    std::ostringstream json;
    entry.write(json, report);
    EXPECT_THAT(json.str(), ::testing::HasSubstr("\"" + std::string(entry.value_field) + "\""));
    std::ostringstream text;
    entry.print(text, report);
    EXPECT_THAT(text.str(), ::testing::HasSubstr(entry.metric));
  }
}

TEST(ObjectiveTest, StageCostOptionsAreThoseOfDpContiguous) {
  const OptionMap map = {{"memory", "none"}};
  OptionReader reader(map, "dp_contiguous");
  agents::StageCostOptions options;
  agents::ReadStageCostOptions(reader, &options);
  reader.Finish();
  EXPECT_EQ(options.memory, agents::StageMemory::kNone);
  EXPECT_EQ(reader.declared().size(), 2U);
}

TEST(ObjectiveTest, EveryAgentThatSearchesBalancesLoads) {
  // A chain is as long on one device as on two. Its load is not.
  const Graph graph = MakeChain(4, 10, 0);
  for (const char* const agent : {"multilevel_search", "local_search", "annealing", "random", "post", "placeto"}) {
    SCOPED_TRACE(agent);
    agents::SearchSpec spec = MakeSearch(graph, MakeCluster(2), agent);
    spec.problem.grouping = "identity";
    spec.objective = "throughput";
    spec.evaluations = 200;
    const agents::SearchResult result = agents::RunSearch(spec);
    EXPECT_EQ(result.best_result.step_time_micros, 20);
    EXPECT_EQ(result.single_device_micros, 40);
    EXPECT_EQ(result.best_result.peak_memory.size(), 2U);
  }
}

TEST(ObjectiveTest, TheSearcherIsAtLeastAsGoodAsTheContiguousOptimumLengthy) {
  Rng rng(5);
  for (int round = 0; round < 20; ++round) {
    SCOPED_TRACE(round);
    agents::SearchSpec spec = MakeSearch(RandomDag(rng, {.num_ops = 5 + rng.Below(20)}), MakeCluster(3),
                                         "dp_contiguous", {{"layers", "apart"}});
    spec.objective = "throughput";
    const double contiguous = agents::RunSearch(spec).best_result.step_time_micros;
    spec.agent = "multilevel_search";
    spec.agent_options = {};
    spec.evaluations = 300;
    EXPECT_LE(agents::RunSearch(spec).best_result.step_time_micros, contiguous);
  }
}

// The load of the second device: its two ops, what it reads, and what it sends.
TEST(LoadChainTest, NamesWhatTheLargestLoadIsMadeOf) {
  const Graph graph = Build({MakeOp("a", 1, {}, {1000}), MakeOp("b", 10, {"a"}, {1000}), MakeOp("c", 10, {"b"}, {1000}),
                             MakeOp("d", 1, {"c", "a"})});
  const Cluster cluster = MakeCluster(2);
  const agents::StageCosts costs = agents::MakeStageCosts(graph, cluster, MeasuredCosts(graph, cluster));
  Placement placement(4);
  const auto op = [&](const char* name) { return *graph.FindOp(name); };
  placement[op("b")] = MakeId<DeviceId>(1);
  placement[op("c")] = MakeId<DeviceId>(1);
  const std::vector<agents::ChainLink> expected = {
      {.op = op("b"), .wait = Wait::kNothing, .before = op("b")},
      {.op = op("c"), .wait = Wait::kNothing, .before = op("c")},
      {.op = op("b"), .wait = Wait::kTransfer, .before = op("a")},
      {.op = op("d"), .wait = Wait::kTransfer, .before = op("c")},
  };
  EXPECT_EQ(agents::LoadChain(costs, placement), expected);
}

TEST(ObjectiveTest, DpContiguousTakesTheCostsOfTheObjective) {
  // Through the CPU a transfer takes as long as all ops.
  const Graph graph = MakeChain(2, 10, 10'000);
  const Cluster cluster("c", "",
                        {{.name = "cpu:0", .kind = "test-cpu", .memory = std::nullopt, .is_cpu = true},
                         {.name = "gpu:0", .kind = "test-gpu", .memory = std::nullopt},
                         {.name = "gpu:1", .kind = "test-gpu", .memory = std::nullopt}},
                        std::vector<Link>(9, {.bandwidth_gb_per_s = 10}), Channels::kPerDevice);
  const CostTable costs = MeasuredCosts(graph, cluster);
  const agents::MaxLoadEvaluator evaluator(agents::MakeStageCosts(graph, cluster, costs));
  agents::Environment env(graph, cluster, costs, ColocationClasses(graph), evaluator);
  env.SetStageCosts(evaluator.costs(), {});
  EXPECT_EQ(env.stage_costs(), &evaluator.costs());
  EXPECT_EQ(env.stage_options().memory, agents::StageMemory::kAll);
  const auto split = agents::FinestContiguousSplit(env);
  ASSERT_TRUE(split.has_value());
  EXPECT_EQ(*split,
            agents::PlaceContiguously(env, {.costs = {}, .plan = {.units = {.layers = agents::LayerUnits::kApart}}}));
}

TEST(ObjectiveTest, WhatCannotRunIsWorseThanWhatDoesNotFit) {
  const Cluster cluster = MakeCluster(1, {.bandwidth_gb_per_s = 1}, 0, Bytes{10});
  agents::Outcome no_room{.result = {}, .reward = -1};
  no_room.result.fits_memory = false;
  no_room.result.peak_memory = {Bytes{20}};
  agents::Outcome no_pipeline{.result = {}, .reward = -1};
  no_pipeline.result.fits_memory = false;
  no_pipeline.result.runs = false;
  EXPECT_TRUE(ScoreOf(no_room, cluster).BetterThan(ScoreOf(no_pipeline, cluster)));
}

}  // namespace
}  // namespace emplace::testing
