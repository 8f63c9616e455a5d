#include "experiments/library/plans/plan_score.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "experiments/library/plans/plan_cells.h"
#include "experiments/library/plans/plan_estimates.h"
#include "experiments/library/plans/planner_process.h"
#include "experiments/library/plans/planners.h"
#include "sim/base/check.h"

namespace emplace::experiments {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr double kParametersOf22B = 22.1e9;

// A GPT on DGX A100s, as Megatron-LM runs it.
PlanCell Gpt(std::int64_t layers, std::int64_t width, std::int64_t heads, std::int64_t nodes, std::int64_t batch) {
  const auto text = [](std::int64_t number) { return std::to_string(number); };
  return {.name = "gpt",
          .table = "made up",
          .network = "gpt-3-175b",
          .set = {{"layers", text(layers)},
                  {"d_model", text(width)},
                  {"heads", text(heads)},
                  {"kv_heads", text(heads)},
                  {"head_width", text(width / heads)},
                  {"d_ff", text(4 * width)},
                  {"vocabulary", "51200"}},
          .cluster = "dgx-a100",
          .nodes = nodes,
          .gpus = 8 * nodes,
          .framework = "megatron",
          .global_batch = batch,
          .sequence = 2048};
}

PlanCell CellOf(std::vector<std::optional<double>> step_s, const std::string& name = "a") {
  PlanCell cell = Gpt(2, 64, 2, 1, 8);
  cell.name = name;
  for (std::size_t i = 0; i < step_s.size(); ++i) cell.settings.push_back({.dp = static_cast<std::int64_t>(i) + 1});
  cell.step_s = std::move(step_s);
  return cell;
}

TEST(PlanScoreTest, ReachedIsTheBestOfTheFirstProposals) {
  const PlanCell cell = CellOf({2.0, 1.0, std::nullopt, 1.25});
  const PlanRun run{.step_s = {2.0, std::nullopt, 1.25, 1.0}, .chosen = "x", .problem = ""};
  EXPECT_EQ(Reached(run, cell, 0), 0.5);
  EXPECT_EQ(Reached(run, cell, 1), 0.5);
  EXPECT_EQ(Reached(run, cell, 2), 0.8);
  EXPECT_EQ(Reached(run, cell, 3), 1);
  EXPECT_EQ(Reached(run, cell, 10), 1);
  EXPECT_EQ(QueriesToNearBest(run, cell), 3U);
  EXPECT_EQ(run.failed(), 1U);
  EXPECT_EQ(Reached({}, cell, 10), 0);
  EXPECT_EQ(QueriesToNearBest({}, cell), std::nullopt);
}

// Two cells of one table, one of another in which nothing ran. In the first, one of two runs reaches half, the other
// nothing; in the second both reach all with their second proposal.
TEST(PlanScoreTest, MeansAreOverCellsAndRuns) {
  const PlanCell a = CellOf({1.0, 2.0, std::nullopt});
  const PlanCell b = CellOf({3.0, std::nullopt}, "b");
  PlanCell c = CellOf({std::nullopt}, "c");
  c.table = "other";
  PlannerScore score;
  score.runs = {
      {{.step_s = {2.0}, .chosen = "", .problem = ""}, {.step_s = {std::nullopt}, .chosen = "", .problem = ""}},
      {{.step_s = {std::nullopt, 3.0}, .chosen = "", .problem = ""}, {.step_s = {3.0}, .chosen = "", .problem = ""}},
      {{.step_s = {std::nullopt}, .chosen = "", .problem = ""}, {.step_s = {}, .chosen = "", .problem = ""}}};
  const PlanSummary summary = Summarise(score, {&a, &b, &c}, "");
  EXPECT_EQ(summary.cells, 2U);
  EXPECT_EQ(summary.reached, 0.375);  // runs: (0.5 + 0) / 2 and (0 + 1) / 2
  EXPECT_NEAR(summary.spread, std::sqrt(2 * 0.125 * 0.125), 1e-12);
  EXPECT_EQ(summary.chosen_failed, 1);
  EXPECT_EQ(summary.regret[0], 0.625);
  EXPECT_EQ(summary.regret[1], 0.375);
  EXPECT_EQ(summary.proposals, 2.5);
  EXPECT_EQ(summary.failed, 1);
  EXPECT_EQ(summary.near_best, 1);
  EXPECT_EQ(summary.queries_to_near_best, 0.5);
  EXPECT_EQ(summary.nothing_ran, 1U);
  EXPECT_EQ(summary.nothing_ran_wrong, 0.5);
  EXPECT_EQ(Summarise(score, {&a, &b, &c}, "other").cells, 0U);
}

TEST(PlanScoreTest, EntriesRunWithinTheirBudget) {
  PlanCell cell = Gpt(2, 64, 2, 1, 8);
  cell.settings = {{.dp = 4, .tp = 2, .micro_batch = 1, .grad_accumulation = 2},
                   {.dp = 8, .micro_batch = 1, .grad_accumulation = 1}};
  cell.step_s = {1.0, 2.0};
  const std::vector<PlanRun> thumb = RunPlanner(FindPlanner("thumb", ""), cell, {.queries = 0});
  ASSERT_EQ(thumb.size(), 1U);
  EXPECT_THAT(thumb[0].step_s, ElementsAre(2.0));
  EXPECT_EQ(thumb[0].chosen, "dp 8, tp 1, pp 1, zero 0, micro-batch 1");
  const std::vector<PlanRun> random = RunPlanner(FindPlanner("random", ""), cell, {});
  ASSERT_EQ(random.size(), kRandomRuns);
  for (const PlanRun& run : random) EXPECT_EQ(run.step_s.size(), 2U);
  for (const PlannerEntry& entry : AllPlanners()) {
    Rng rng(1);
    EXPECT_EQ(entry.order(cell, rng).size(), 2U) << entry.name;
  }
}

TEST(PlanScoreTest, JsonHasACellWithoutItsMeasurementsAndTheScores) {
  const PlanCell cell = CellOf({2.0, 1.0});
  const JsonValue asked = ToJson(PlanCellToJson(cell));
  EXPECT_EQ(FindMember(asked, "step_s"), nullptr);
  const auto& settings = *FindMember(asked, "settings")->As<JsonList>();
  ASSERT_EQ(settings.size(), 2U);
  EXPECT_EQ(*FindMember(settings[1], "dp")->As<std::int64_t>(), 2);
  PlannerScore score{.planner = FindPlanner("thumb", ""),
                     .runs = {{{.step_s = {2.0, 1.0}, .chosen = "a", .problem = ""}}}};
  const JsonValue root = ToJson(PlanScoresToJson({score}, {&cell}, {}));
  const JsonValue& planner = FindMember(root, "planners")->As<JsonList>()->front();
  const JsonValue& row = FindMember(planner, "cells")->As<JsonList>()->front();
  const JsonValue& reached = *FindMember(row, "reached");
  EXPECT_EQ(*FindMember(reached, "0")->As<double>(), 0.5);
  EXPECT_EQ(*FindMember(reached, "1")->As<double>(), 1);
  EXPECT_EQ(FindMember(planner, "means")->As<JsonList>()->size(), 2U);  // of its table, and of all
}

TEST(PlanScoreTest, ThumbLeavesOutWhatDoesNotFit) {
  PlanCell cell = Gpt(96, 12288, 96, 16, 64);  // 175 billion parameters
  cell.settings = {{.dp = 128, .grad_accumulation = 1}, {.dp = 1, .tp = 8, .pp = 16, .grad_accumulation = 64}};
  cell.step_s = {std::nullopt, 10.0};
  Rng rng(1);
  EXPECT_THAT(AllPlanners()[2].order(cell, rng), ElementsAre(1U));
}

TEST(PlanScoreTest, CommandsAreOfProgramsAndFunctions) {
  EXPECT_THAT(PlannerCommand("emplace"), IsEmpty());
  EXPECT_EQ(PlannerCommand("module:function").back(), "module:function");
  EXPECT_THAT(PlannerCommand("/bin/true"), ElementsAre("/bin/true"));
  EXPECT_THROW(PlannerCommand("/bin"), InputError);
}

// 16 bytes for each parameter; 34 for each token, unit of width and layer.
TEST(PlanEstimatesTest, TheUsualFormula) {
  PlanCell cell = Gpt(2, 64, 2, 1, 8);
  cell.fixed = {{"attention", "fused"}};
  const PlanProblem problem(cell);
  const auto parameters = static_cast<double>(datasets::Parameters(problem.network).total);
  const double activations = 34.0 * 2048 * 64 * 2;
  EXPECT_DOUBLE_EQ(UsualBytes(problem, {.dp = 8}), 16 * parameters + activations);
  EXPECT_DOUBLE_EQ(UsualBytes(problem, {.dp = 8, .zero = 1}), (4 + 12 / 8.0) * parameters + activations);
  EXPECT_DOUBLE_EQ(UsualBytes(problem, {.dp = 4, .tp = 2}), 16 * parameters / 2 + activations / 2);
  // One layer a stage, of two micro-batches.
  EXPECT_DOUBLE_EQ(UsualBytes(problem, {.dp = 4, .pp = 2, .grad_accumulation = 2}), 16 * parameters / 2 + activations);
  cell.fixed = {{"attention", "unfused"}, {"sequence_parallel", "false"}};
  const PlanProblem unfused(cell);
  EXPECT_DOUBLE_EQ(UsualBytes(unfused, {.dp = 4, .tp = 2}),
                   16 * parameters / 2 + 2048.0 * 2 * (64 * (10 + 24 / 2.0) + 5 * 2 * 2048 / 2.0));
}

TEST(PlanEstimatesTest, ThreeTerms) {
  const PlanCell cell = Gpt(2, 64, 2, 1, 8);
  const PlanProblem problem(cell);
  const auto parameters = static_cast<double>(datasets::Parameters(problem.network).total);
  const double products = 6 * parameters * 8 * 2048 / 8 / (0.5 * 312e12);
  const double ring = 2 * 7 / 8.0 * 2 * parameters / (problem.machine.inside.bandwidth_gb_per_s * 1e9);
  EXPECT_NEAR(EstimateInThreeTerms(problem, {.dp = 8}).step_s, products + ring, 1e-12);
  // Two stages and two micro-batches: half as much again.
  const double of_half = 2 * 3 / 4.0 * 2 * parameters / 2 / (problem.machine.inside.bandwidth_gb_per_s * 1e9);
  EXPECT_NEAR(EstimateInThreeTerms(problem, {.dp = 4, .pp = 2, .grad_accumulation = 2}).step_s,
              1.5 * products + of_half, 1e-12);
}

// Korthikanti et al. 2022, table 5: Megatron-LM with sequence parallelism and selective recomputation takes 1.10 s for
// a step of 22 billion parameters on 8 A100, and 71.49 s for 1 trillion on 512. Calculon states 3.65 % in the mean
// there, with a system that is calibrated on these rows; its usual one is less slow.
TEST(PlanEstimatesTest, CalculonAndSimuMaxAreNearMegatronsIterations) {
  PlanCell small = Gpt(48, 6144, 64, 1, 4);
  small.fixed = {{"attention", "unfused"}};
  const PlanProblem of_22b(small);
  EXPECT_NEAR(static_cast<double>(datasets::Parameters(of_22b.network).total), kParametersOf22B, 0.3e9);
  const PlanSetting one_batch = {.tp = 8, .micro_batch = 4};
  EXPECT_NEAR(EstimateAsCalculon(of_22b, one_batch).step_s / 1.10, 1, 0.2);
  EXPECT_NEAR(EstimateAsSimuMax(of_22b, one_batch).step_s / 1.10, 1, 0.2);
  PlanCell large = Gpt(128, 25600, 160, 64, 512);
  large.fixed = small.fixed;
  const PlanProblem of_1t(large);
  const PlanSetting many = {.tp = 8, .pp = 64, .grad_accumulation = 512};
  EXPECT_NEAR(EstimateAsCalculon(of_1t, many).step_s / 71.49, 1, 0.2);
  EXPECT_NEAR(EstimateAsSimuMax(of_1t, many).step_s / 71.49, 1, 0.2);
}

TEST(PlanEstimatesTest, StepsGrowWithMicroBatchesAndStages) {
  const PlanCell cell = Gpt(8, 1024, 16, 2, 64);
  const PlanProblem problem(cell);
  for (const auto estimate : {EstimateAsCalculon, EstimateAsSimuMax}) {
    const auto step = [&](std::int64_t pp, std::int64_t batches) {
      return estimate(problem, {.dp = 16 / pp, .pp = pp, .grad_accumulation = batches}).step_s;
    };
    EXPECT_NEAR(step(2, 3) - step(2, 2), step(2, 2) - step(2, 1), 1e-9);
    // ZeRO 1 divides the optimizer's state.
    const PlanSetting whole = {.dp = 16, .grad_accumulation = 4};
    PlanSetting divided = whole;
    divided.zero = 1;
    const double weights = 12.0 * 1024 * 1024 * 8;
    EXPECT_GT(estimate(problem, whole).bytes - estimate(problem, divided).bytes, 12 * weights * 15 / 16 * 0.999);
  }
  // As many micro-batches in flight as there are stages.
  EXPECT_GT(EstimateAsCalculon(problem, {.dp = 8, .pp = 2, .grad_accumulation = 4}).bytes,
            EstimateAsCalculon(problem, {.dp = 8, .pp = 2, .grad_accumulation = 1}).bytes);
}

TEST(PlanCellsTest, TextsAndNames) {
  EXPECT_EQ(SettingText({.dp = 8, .zero = 1, .micro_batch = 2}), "dp 8, tp 1, pp 1, zero 1, micro-batch 2");
  const std::vector<PlanCell> cells = {CellOf({1.0, std::nullopt, 0.5}, "nanotron-8b-64")};
  EXPECT_EQ(cells[0].ran(), 2U);
  EXPECT_EQ(cells[0].best_step_s(), 0.5);
  EXPECT_EQ(&FindPlanCell(cells, "nanotron-8b-64", ""), &cells[0]);
  try {
    FindPlanCell(cells, "nanotron-8b-65", "--instances");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("did you mean nanotron-8b-64?"));
  }
  EXPECT_THROW(ReadPlanCells("/nowhere"), InputError);
  EXPECT_EQ(PlanTables().size(), 2U);
}

}  // namespace
}  // namespace emplace::experiments
