#include "experiments/report/plan_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>

#include "datasets/memory/training_memory.h"
#include "datasets/models/transformer.h"
#include "datasets/shipped_clusters.h"
#include "experiments/report/html.h"
#include "sim/base/human_readable.h"

namespace emplace::testing {
namespace {

using datasets::PlanAnswer;
using datasets::PlanQuestion;
using ::testing::HasSubstr;
using ::testing::Not;

PlanQuestion Question(const char* network, const OptionMap& only) {
  PlanQuestion question;
  question.network = *datasets::FindTransformer(network);
  question.machine = datasets::MakePlanMachine(datasets::LoadCluster("dgx-h100"), 1);
  question.framework = datasets::FindFrameworkHabits("megatron");
  question.global_batch = 32;
  question.sequence = 4096;
  question.only = only;
  return question;
}

std::string Page(const PlanQuestion& question, const PlanAnswer& answer, const std::string& network = "net") {
  std::ostringstream out;
  experiments::WriteHtml(out, experiments::MakePlanPage(question, answer, network));
  return out.str();
}

std::size_t Count(const std::string& text, const std::string& part) {
  std::size_t count = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(PlanPageTest, ShowsPlansMemoryScheduleAndFrontier) {
  const PlanQuestion question = Question("llama-3-8b", {{"pp", "4"}, {"vpp", "1"}});
  const PlanAnswer answer = SearchPlans(question);
  ASSERT_FALSE(answer.plans.empty());
  const datasets::ScoredPlan& best = answer.plans[0];
  const std::string page = Page(question, answer, "<b>b&c");
  EXPECT_THAT(page, HasSubstr("&lt;b&gt;b&amp;c"));
  EXPECT_THAT(page, Not(HasSubstr("<b>")));
  EXPECT_THAT(page, Not(HasSubstr("src=")));
  EXPECT_THAT(page, HasSubstr("a step takes " + HumanReadableMicros(best.time.micros)));
  EXPECT_EQ(Count(page, "<svg "), 3U);
  EXPECT_EQ(Count(page, "<svg "), Count(page, "</svg>"));
  // A bar of memory for each pipeline rank; weights, gradients and the optimizer are on all of them.
  for (int rank = 0; rank < 4; ++rank) {
    for (const char* const of_class : {"weights", "gradients", "optimizer"}) {
      EXPECT_EQ(Count(page, "<title>rank " + std::to_string(rank) + ": " + of_class), 1U) << rank << of_class;
    }
  }
  // Micro-batch 0 passes all four stages forward and backward.
  for (const char* const action : {"0F0", "1F0", "2F0", "3F0", "3B0", "2B0", "1B0", "0B0"}) {
    EXPECT_THAT(page, HasSubstr(std::string("<title>") + action + "</title></rect>"));
  }
  EXPECT_EQ(Count(page, "class=\"frontier\""), 1U);
}

TEST(PlanPageTest, PointsAreThePlansWhoseMemoryWasLookedAt) {
  PlanQuestion question = Question("llama-3-8b", {{"cp", "1"}, {"zero", "1"}});
  question.best = 0;
  const PlanAnswer answer = SearchPlans(question);
  ASSERT_EQ(answer.points.size(), answer.plans.size());
  EXPECT_EQ(static_cast<std::size_t>(std::ranges::count_if(answer.points, &datasets::PlanPoint::fits)), answer.fitting);
  // However many plans there are, the page stays small.
  EXPECT_LT(Page(question, answer).size(), 300'000U);
}

TEST(PlanPageTest, SaysWhatAFineTuningTrains) {
  PlanQuestion question = Question("llama-3-8b", {{"dp", "8"}, {"micro_batch", "1"}});
  datasets::SetLora(16, "linear_qkv", &question);
  EXPECT_THAT(Page(question, SearchPlans(question)), HasSubstr("adapters of rank 16 at linear_qkv."));
}

TEST(PlanPageTest, SaysWhatIsMissingWhereNothingFits) {
  const PlanQuestion question = Question("llama-3-70b", {{"tp", "8"}});
  const PlanAnswer answer = SearchPlans(question);
  ASSERT_TRUE(answer.nearest.has_value());
  const std::string page = Page(question, answer);
  EXPECT_THAT(page, HasSubstr("No plan fits. The nearest has tp 8, "));
  EXPECT_THAT(page, Not(HasSubstr("Best plans")));
  // No plan's state fits, so that no other peak was computed.
  EXPECT_TRUE(answer.points.empty());
  EXPECT_THAT(page, Not(HasSubstr("Step time against memory")));
  EXPECT_THAT(page, HasSubstr("<title>rank 0: weights"));
}

// A stage of each rank: the time of the slowest one is that of all passes.
TEST(PlanPageTest, StagesAddUpToTheStep) {
  const PlanQuestion question = Question("llama-3-8b", {});
  datasets::ParallelPlan plan;
  plan.dp = 2;
  plan.pp = 4;
  plan.grad_accumulation = 16;
  const datasets::TrainingSetup setup = SetupOf(question, plan);
  datasets::StepTimer timer(question.machine, *question.framework);
  double slowest = 0;
  double sum = 0;
  for (const datasets::StageTime& stage : timer.StageTimes(setup)) {
    slowest = std::max(slowest, stage.forward + stage.backward);
    sum += stage.forward + stage.backward;
  }
  const datasets::StepTime step = timer.Time(setup);
  EXPECT_NEAR(16 * slowest, step.passes.micros(), 1e-6 * step.micros);
  EXPECT_NEAR(sum - slowest, step.bubble, 1e-6 * step.micros);
  EXPECT_NEAR(2 * (16 + 3) * timer.StageMessageMicros(setup), step.messages, 1e-6 * step.micros);
  plan.pp = 1;
  plan.dp = 8;
  EXPECT_EQ(timer.StageMessageMicros(SetupOf(question, plan)), 0);
}

}  // namespace
}  // namespace emplace::testing
