#include "datasets/planner/plan_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <sstream>
#include <string>

#include "datasets/memory/megatron_arguments.h"
#include "datasets/memory/training_memory.h"
#include "datasets/memory/transformer_setup.h"
#include "datasets/shipped_clusters.h"
#include "sim/base/check.h"
#include "sim/base/json_text.h"

namespace emplace::datasets {
namespace {

using ::testing::HasSubstr;

ParallelPlan PlanWith(const std::string& fields) {
  std::istringstream in(R"({"schema": "emplace.plan", "version": 1, )" + fields + "}");
  return ReadPlan(in, "plan");
}

PlanQuestion QuestionOf(const ParallelPlan& plan) {
  PlanQuestion question;
  question.network = *FindTransformer("llama-3-8b");
  question.machine = MakePlanMachine(LoadCluster("dgx-h100"), 1);
  question.framework = FindFrameworkHabits("megatron");
  question.global_batch = plan.dp * plan.micro_batch * plan.grad_accumulation;
  question.sequence = 4096;
  return question;
}

TEST(CheckPlanTest, WhatHelpsMostChangesOnePart) {
  const ParallelPlan plan =
      PlanWith(R"("tp": 8, "zero": 1, "micro_batch": 1, "grad_accumulation": 32, "sequence_parallel": true)");
  const PlanCheck check = CheckPlan(QuestionOf(plan), plan);
  ASSERT_TRUE(check.checked.has_value());
  EXPECT_TRUE(check.checked->fits);
  EXPECT_EQ(check.illegal, "");
  ASSERT_FALSE(check.helping.empty());
  for (const PlanChange& change : check.helping) {
    EXPECT_TRUE(change.plan.fits);
    EXPECT_LT(change.plan.time.micros, 0.95 * check.checked->time.micros);
    EXPECT_THAT(change.text, HasSubstr("instead of"));
  }
  EXPECT_GE(check.helping[0].plan.time.micros, 0.94 * check.answer.plans[0].time.micros);
}

TEST(CheckPlanTest, WhatIsTooLargeIsToldWhatMakesItFit) {
  const ParallelPlan plan = PlanWith(R"("dp": 8, "micro_batch": 4, "grad_accumulation": 1)");
  const PlanCheck check = CheckPlan(QuestionOf(plan), plan);
  ASSERT_TRUE(check.checked.has_value());
  EXPECT_FALSE(check.checked->fits);
  EXPECT_GT(check.checked->needed_bytes, check.answer.usable_bytes);
}

TEST(CheckPlanTest, TheRuleThatAPlanBreaksIsNamed) {
  const ParallelPlan plan = PlanWith(R"("tp": 8, "dp": 1, "zero": 1)");
  PlanQuestion question = QuestionOf(plan);
  question.network.heads = 36;
  question.network.kv_heads = 36;
  const PlanCheck check = CheckPlan(question, plan);
  EXPECT_FALSE(check.checked.has_value());
  EXPECT_THAT(check.illegal, HasSubstr("tp: is 8 (a divisor of heads, which is 36)"));
  EXPECT_THROW(CheckPlan(question, PlanWith(R"("tp": 4)")), InputError);
}

TEST(CheckPlanTest, AScoredPlanIsThatOfTheSearch) {
  const ParallelPlan plan = PlanWith(R"("dp": 8, "zero": 1, "micro_batch": 2, "grad_accumulation": 2)");
  PlanQuestion question = QuestionOf(plan);
  const ScoredPlan scored = ScorePlan(question, plan);
  question.best = 0;
  question.only = {{"dp", "8"}, {"zero", "1"}, {"micro_batch", "2"}, {"recompute", "none"}};
  const PlanAnswer answer = SearchPlans(question);
  ASSERT_EQ(answer.plans.size(), 1U);
  EXPECT_EQ(answer.plans[0].time.micros, scored.time.micros);
  EXPECT_EQ(answer.plans[0].needed_bytes, scored.needed_bytes);
  EXPECT_EQ(answer.usable_bytes, question.machine.memory->count - OutsideBytes(SetupOf(question, plan)));
}

TEST(PlanOfTest, MegatronsArgumentsAreAPlanOfTheirNetwork) {
  std::istringstream in(R"({"model": "gpt", "num-layers": 8, "hidden-size": 1024, "num-attention-heads": 16,
      "group-query-attention": true, "num-query-groups": 4, "swiglu": true, "normalization": "RMSNorm",
      "position-embedding-type": "rope", "untie-embeddings-and-output-weights": true, "seq-length": 2048,
      "max-position-embeddings": 2048, "micro-batch-size": 2, "global-batch-size": 64, "bf16": true,
      "tensor-model-parallel-size": 2, "pipeline-model-parallel-size": 2, "sequence-parallel": true,
      "use-distributed-optimizer": true, "recompute-granularity": "full", "recompute-method": "block",
      "recompute-num-layers": 2})");
  const TrainingSetup setup = ReadMegatronArguments(ParseJson(in), 16).setup;
  const ParallelPlan plan = PlanOf(setup);
  EXPECT_EQ(plan.tp, 2);
  EXPECT_EQ(plan.pp, 2);
  EXPECT_EQ(plan.dp, 4);
  EXPECT_EQ(plan.zero, 1);
  EXPECT_EQ(plan.micro_batch, 2);
  EXPECT_EQ(plan.grad_accumulation, 8);
  EXPECT_EQ(*plan.recompute.As<std::int64_t>(), 2);
  EXPECT_EQ(plan.stages.size(), 2U);
  const TransformerNetwork network = NetworkOf(setup);
  EXPECT_EQ(network.layers, 8);
  EXPECT_EQ(network.kv_heads, 4);
  EXPECT_TRUE(network.gated);
  EXPECT_FALSE(network.tied);
  // The same network again.
  const TrainingSetup again = MakeTrainingSetup(network, plan, 2048);
  EXPECT_EQ(again.network.vocabulary, setup.network.vocabulary);
  EXPECT_EQ(again.network.d_ff, setup.network.d_ff);
  EXPECT_EQ(again.network.layers.size(), setup.network.layers.size());
  EXPECT_EQ(again.micro_batches, setup.micro_batches);
}

TEST(PlanOfTest, AHybridHasThePatternOfMegatronsArguments) {
  const auto network = [](const std::string& pattern) {
    std::istringstream in(R"({"model": "hybrid", "hidden-size": 1024, "num-attention-heads": 16, "seq-length": 2048,
        "squared-relu": true, "num-experts": 8, "moe-latent-size": 256, "mtp-num-layers": 2,
        "mtp-use-repeated-layer": true, "mamba-state-dim": 64, "bf16": true, "hybrid-layer-pattern": ")" +
                          pattern + "\"}");
    return NetworkOf(ReadMegatronArguments(ParseJson(in), 1).setup);
  };
  const TransformerNetwork hybrid = network("MEM*-/*E/*E");
  CheckTransformer(hybrid);
  EXPECT_EQ(hybrid.pattern, "MEM*-");
  EXPECT_EQ(hybrid.mtp_pattern, "*E");
  EXPECT_TRUE(hybrid.mtp_shared);
  EXPECT_EQ(hybrid.mamba->heads, 32);
  EXPECT_EQ(hybrid.mamba->state, 64);
  EXPECT_EQ(hybrid.experts.latent, 256);
  EXPECT_EQ(hybrid.experts.dense_first_layers, 0);
  EXPECT_EQ(hybrid.activation, ActivationKind::kSquaredRelu);
  EXPECT_FALSE(network("*-/*-").mamba);
}

TEST(PlanOfTest, MegatronsRecipesArePrecisionsOfProducts) {
  const auto precision = [](const std::string& arguments) {
    std::istringstream in(R"({"model": "gpt", "num-layers": 2, "hidden-size": 256, "num-attention-heads": 4,
        "seq-length": 128, "max-position-embeddings": 128, "micro-batch-size": 1, "global-batch-size": 8, "bf16": true)" +
                          arguments + "}");
    return PlanOf(ReadMegatronArguments(ParseJson(in), 8).setup).precision;
  };
  EXPECT_EQ(precision(""), "bf16");
  EXPECT_EQ(precision(R"(, "fp8-format": "hybrid")"), "fp8");
  EXPECT_EQ(precision(R"(, "fp8-format": "hybrid", "fp8-recipe": "tensorwise")"), "fp8");
  EXPECT_EQ(precision(R"(, "fp8-format": "e4m3", "fp8-recipe": "mxfp8")"), "mxfp8");
  EXPECT_EQ(precision(R"(, "fp4-format": "e2m1")"), "nvfp4");
  EXPECT_THROW(precision(R"(, "fp8-format": "hybrid", "fp8-recipe": "fast")"), InputError);
}

TEST(CheckPlanTest, PlansBesideItHaveItsPrecision) {
  const ParallelPlan plan = PlanWith(R"("dp": 8, "zero": 1, "grad_accumulation": 4, "precision": "fp8")");
  const PlanCheck check = CheckPlan(QuestionOf(plan), plan);
  ASSERT_TRUE(check.checked);
  ASSERT_FALSE(check.answer.plans.empty());
  for (const ScoredPlan& beside : check.answer.plans) EXPECT_EQ(beside.plan.precision, "fp8");
}

}  // namespace
}  // namespace emplace::datasets
