#include "datasets/planner/plan_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "datasets/memory/training_memory.h"
#include "datasets/memory/transformer_setup.h"
#include "datasets/shipped_clusters.h"
#include "sim/base/check.h"

namespace emplace::datasets {
namespace {

using ::testing::HasSubstr;

PlanQuestion QuestionOf(const char* network) {
  PlanQuestion question;
  question.network = *FindTransformer(network);
  question.machine = MakePlanMachine(LoadCluster("dgx-h100"), 1);
  question.framework = FindFrameworkHabits("megatron");
  question.global_batch = 32;
  question.sequence = 4096;
  return question;
}

ParallelPlan PlanWith(std::int64_t dp, std::int64_t tp, std::int64_t pp) {
  ParallelPlan plan;
  plan.dp = dp;
  plan.tp = tp;
  plan.pp = pp;
  plan.zero = 1;
  plan.grad_accumulation = 32 / dp;
  return plan;
}

TEST(PlanCheckTest, AChangeHelpsWhereThePlanIsSlowOrDoesNotFit) {
  const PlanQuestion question = QuestionOf("llama-3-8b");
  const PlanCheck slow = CheckPlan(question, PlanWith(1, 8, 1));
  ASSERT_TRUE(slow.checked.has_value());
  EXPECT_TRUE(slow.checked->fits);
  EXPECT_EQ(slow.answer.usable_bytes,
            question.machine.memory->count - OutsideBytes(SetupOf(question, slow.checked->plan)));
  EXPECT_EQ(slow.checked->time.micros, ScorePlan(question, PlanWith(1, 8, 1)).time.micros);
  ASSERT_FALSE(slow.helping.empty());
  EXPECT_LT(slow.helping[0].plan.time.micros, 0.95 * slow.checked->time.micros);
  EXPECT_THAT(slow.helping[0].text, HasSubstr(" instead of "));
  const PlanCheck large = CheckPlan(question, PlanWith(8, 1, 1));
  ASSERT_TRUE(large.checked.has_value());
  EXPECT_FALSE(large.checked->fits);
  ASSERT_FALSE(large.helping.empty());
  EXPECT_TRUE(large.helping[0].plan.fits);
}

TEST(PlanCheckTest, WhatIsIllegalIsToldAndDevicesHaveToBeThose) {
  const PlanQuestion question = QuestionOf("llama-3-8b");
  ParallelPlan experts = PlanWith(8, 1, 1);
  experts.ep = 2;
  const PlanCheck check = CheckPlan(question, experts);
  EXPECT_FALSE(check.checked.has_value());
  EXPECT_THAT(check.illegal, HasSubstr("ep: is 2"));
  EXPECT_THROW(CheckPlan(question, PlanWith(16, 1, 1)), InputError);
}

TEST(PlanCheckTest, ASetupSaysItsPlanAndNetwork) {
  for (const char* const name : {"llama-3-8b", "deepseek-v2-lite", "t5-small"}) {
    const TransformerNetwork network = *FindTransformer(name);
    const ParallelPlan plan = PlanWith(2, 2, 2);
    const TrainingSetup setup = MakeTrainingSetup(network, plan, 512, TrainingFramework::kMegatron);
    const ParallelPlan same = PlanOf(setup);
    EXPECT_EQ(same.devices(), 8) << name;
    EXPECT_EQ(same.zero, 1) << name;
    EXPECT_EQ(same.stages.size(), 2U) << name;
    TransformerNetwork known = NetworkOf(setup);
    EXPECT_EQ(known.layers, network.layers) << name;
    EXPECT_EQ(known.encoder_layers, network.encoder_layers) << name;
    const TrainingSetup again = MakeTrainingSetup(known, same, 512, TrainingFramework::kMegatron);
    EXPECT_DOUBLE_EQ(ModelFlop(again), ModelFlop(setup)) << name;
  }
}

}  // namespace
}  // namespace emplace::datasets
