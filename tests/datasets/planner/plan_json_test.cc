#include "datasets/planner/plan_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "datasets/memory/training_memory.h"
#include "datasets/models/named_network.h"
#include "datasets/shipped_clusters.h"
#include "sim/base/check.h"

namespace emplace::datasets {
namespace {

using ::testing::HasSubstr;

PlanQuestion Question() {
  PlanQuestion question;
  question.network = NamedNetwork("llama-3-8b", {{"layers", "8"}}, "set");
  question.machine = MakePlanMachine(LoadCluster("dgx-h100"), 2, 8);
  question.framework = &NamedFramework("megatron", "framework");
  question.global_batch = 32;
  question.sequence = UsualSequence(question.network);
  return question;
}

TEST(PlanJsonTest, PlansAreWrittenWithTheirFigures) {
  const PlanQuestion question = Question();
  const PlanAnswer answer = SearchPlans(question);
  std::ostringstream text;
  WritePlans(text, question, answer);
  const auto json = nlohmann::json::parse(text.str());
  EXPECT_EQ(json.at("schema"), "emplace.plans");
  EXPECT_EQ(json.at("gpus"), 8);
  EXPECT_EQ(json.at("sequence"), 4096);
  ASSERT_EQ(json.at("plans").size(), answer.plans.size());
  const ScoredPlan& best = answer.plans[0];
  const auto& first = json.at("plans")[0];
  EXPECT_EQ(first.at("step_time_us"), best.time.micros);
  EXPECT_EQ(first.at("tokens_per_s"), TokensPerSecond(question, best.time.micros));
  EXPECT_EQ(first.at("mfu_percent"), MfuPercent(question, answer, best));
  double micros = 0;
  for (const TimePart& part : TimePartsOf(best.time)) {
    EXPECT_EQ(first.at("time_us").at(std::string(part.key)), part.micros);
    micros += part.micros;
  }
  EXPECT_NEAR(micros, best.time.micros, 1e-6 * micros);
  ScoredPlan ideal = best;
  ideal.time.micros = answer.ideal_micros;
  EXPECT_EQ(MfuPercent(question, answer, ideal), 100);
  EXPECT_LT(answer.bound_micros, answer.ideal_micros);
  EXPECT_EQ(TokensPerSecond(question, 1e6), 32 * 4096);
}

TEST(PlanJsonTest, APriceGivesCosts) {
  PlanQuestion question = Question();
  question.only = {{"tp", "2"}, {"micro_batch", "1"}};
  question.objective = PlanObjective::kCost;
  question.price = 3.6;
  const PlanAnswer answer = SearchPlans(question);
  ScoredPlan scored = answer.plans[0];
  scored.plan = ParallelPlan();
  scored.plan.dp = 2;
  scored.time.micros = 1e6;
  EXPECT_DOUBLE_EQ(CostOfStep(question, scored), 0.002);
  EXPECT_DOUBLE_EQ(CostOfBillionTokens(question, scored), 0.002 * 1e9 / (32 * 4096));
  EXPECT_DOUBLE_EQ(TokensPerSecondOfGpu(question, scored), 32 * 4096 / 2);
  std::ostringstream text;
  WritePlans(text, question, answer);
  const auto json = nlohmann::json::parse(text.str());
  EXPECT_EQ(json.at("objective"), "cost");
  EXPECT_EQ(json.at("price"), 3.6);
  EXPECT_FALSE(json.contains("within_s"));
  const auto& first = json.at("plans")[0];
  EXPECT_EQ(first.at("gpus"), answer.plans[0].plan.devices());
  EXPECT_EQ(first.at("cost_of_step"), CostOfStep(question, answer.plans[0]));
  EXPECT_EQ(first.at("cost_of_billion_tokens"), CostOfBillionTokens(question, answer.plans[0]));
}

TEST(PlanJsonTest, AWrittenPlanNamesItsNetworkAndItsStages) {
  const PlanQuestion question = Question();
  ParallelPlan plan;
  plan.dp = 4;
  plan.pp = 2;
  plan.grad_accumulation = 8;
  plan.recompute = ToJson(std::int64_t{3});
  EXPECT_EQ(plan.recompute_text(), "3");
  const ParallelPlan whole = WithNetwork(question, plan, "llama-3-8b", {{"layers", "8"}});
  EXPECT_EQ(whole.network, "llama-3-8b");
  EXPECT_EQ(whole.set.at("layers"), "8");
  ASSERT_EQ(whole.stages.size(), 2U);
  EXPECT_EQ(whole.stages[0].size(), 4U);
  EXPECT_EQ(*whole.stages[1][0].As<std::int64_t>(), 4);
  std::ostringstream text;
  WritePlanCheck(text, question, CheckPlan(question, plan));
  const auto json = nlohmann::json::parse(text.str());
  EXPECT_EQ(json.at("checked").at("recompute"), 3);
  EXPECT_TRUE(json.at("helping").is_array());
}

TEST(PlanJsonTest, AFoundPlanHasTheSameFiguresAlone) {
  const PlanQuestion question = Question();
  const PlanAnswer answer = SearchPlans(question);
  const ScoredPlan& found = answer.plans[0];
  const ScoredPlan alone = ScorePlan(question, found.plan);
  EXPECT_EQ(alone.time.micros, found.time.micros);
  EXPECT_EQ(alone.needed_bytes, found.needed_bytes);
  EXPECT_TRUE(alone.fits);
  const TrainingSetup setup = SetupOf(question, found.plan);
  EXPECT_EQ(answer.usable_bytes, question.machine.memory->count - OutsideBytes(setup));
  const TransformerNetwork network = NetworkOf(setup);
  EXPECT_EQ(network.layers, 8);
  EXPECT_EQ(network.d_model, question.network.d_model);
  EXPECT_EQ(network.kv_heads, question.network.kv_heads);
  EXPECT_EQ(network.d_ff, question.network.d_ff);
}

TEST(PlanJsonTest, ErrorsAreAtThePlaceOfTheField) {
  const auto told = [](const auto& call) -> std::string {
    try {
      call();
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(told([] { NamedFramework("mega", "--framework"); }), HasSubstr("--framework: is \"mega\" (megatron, "));
  EXPECT_THAT(told([] { NamedNetwork("llama-3-8b", {{"layers", "x"}}, "--set"); }), HasSubstr("--set: layers: "));
  EXPECT_THAT(told([] { NamedNetwork("llama-3-8", {}, "--set"); }), HasSubstr("did you mean llama-3-8b?"));
  EXPECT_EQ(told([] { MakePlanMachine(LoadCluster("dgx-h100"), 2, 13, "--gpus"); }),
            "--gpus: is 13 (less than 8, or a multiple of the 2 nodes up to 16)");
  EXPECT_EQ(told([] { MakePlanMachine(LoadCluster("dgx-h100"), 1, 0); }), "gpus: is 0 (1 to 8)");
  PlanQuestion question = Question();
  question.only = {{"tp", "two"}};
  question.prefix = "--";
  EXPECT_THAT(told([&] { SearchPlans(question); }), HasSubstr("--only: tp is \"two\""));
}

}  // namespace
}  // namespace emplace::datasets
