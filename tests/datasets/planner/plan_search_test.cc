#include "datasets/planner/plan_search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <iterator>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "datasets/memory/training_memory.h"
#include "datasets/shipped_clusters.h"
#include "sim/base/check.h"

namespace emplace::datasets {
namespace {

using ::testing::HasSubstr;

PlanQuestion Question(const char* network, const char* cluster = "dgx-h100", std::int64_t nodes = 1) {
  PlanQuestion question;
  question.network = *FindTransformer(network);
  question.machine = MakePlanMachine(LoadCluster(cluster), nodes);
  question.framework = FindFrameworkHabits("megatron");
  question.global_batch = 32;
  question.sequence = 4096;
  return question;
}

TEST(SearchPlansTest, PlansThatFitComeFastestFirst) {
  const PlanAnswer answer = SearchPlans(Question("llama-3-8b"));
  ASSERT_EQ(answer.plans.size(), 20U);
  EXPECT_GT(answer.legal, 100U);
  for (std::size_t i = 0; i < answer.plans.size(); ++i) {
    const ScoredPlan& scored = answer.plans[i];
    EXPECT_TRUE(scored.fits);
    EXPECT_EQ(scored.plan.devices(), 8);
    EXPECT_EQ(scored.plan.dp * scored.plan.micro_batch * scored.plan.grad_accumulation, 32);
    EXPECT_GT(scored.time.micros, answer.bound_micros);
    EXPECT_LE(scored.needed_bytes, answer.usable_bytes);
    if (i > 1) {
      EXPECT_GE(scored.time.micros, answer.plans[i - 1].time.micros);
    }
  }
  // The first is as fast as the fastest, to what predictions can tell.
  EXPECT_LE(answer.plans[0].time.micros, 1.05 * answer.plans[1].time.micros);
}

TEST(SearchPlansTest, RoomInMemoryIsNoReasonToDivideSequences) {
  PlanQuestion question = Question("llama-3-8b", "dgx-h100", 8);
  question.global_batch = 256;
  question.only = {{"tp", "1"}, {"pp", "1"}};
  const PlanAnswer answer = SearchPlans(question);
  ASSERT_GE(answer.plans.size(), 3U);
  EXPECT_EQ(answer.plans[0].plan.cp, 1);
  // One with less memory is within 5 % of it.
  EXPECT_TRUE(std::ranges::any_of(answer.plans, [&](const ScoredPlan& of) {
    return of.plan.cp > 1 && of.needed_bytes < answer.plans[0].needed_bytes &&
           of.time.micros < 1.05 * answer.plans[0].time.micros;
  }));
}

TEST(SearchPlansTest, PeaksAreThoseOfTheMemoryOfAllRanks) {
  PlanQuestion question = Question("llama-3-8b");
  question.network.layers = 16;
  question.best = 0;
  question.only = {{"micro_batch", "1"}, {"cp", "1"}};
  for (const ScoredPlan& scored : SearchPlans(question).plans) {
    std::int64_t largest = 0;
    for (const RankPeak& peak : PipelinePeaks(SetupOf(question, scored.plan))) {
      largest = std::max(largest, peak.reserved_bytes);
    }
    EXPECT_EQ(scored.peak.reserved_bytes, largest)
        << scored.plan.tp << " " << scored.plan.pp << " " << scored.plan.vpp << " " << scored.plan.zero;
  }
}

TEST(SearchPlansTest, EveryLegalPlanIsThereOnce) {
  PlanQuestion question = Question("llama-3-8b", "dgx-h100", 2);
  question.best = 0;
  question.framework = FindFrameworkHabits("nanotron");
  const PlanAnswer answer = SearchPlans(question);
  EXPECT_EQ(answer.plans.size(), answer.legal);
  std::set<std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t>> seen;
  for (const ScoredPlan& scored : answer.plans) {
    const ParallelPlan& plan = scored.plan;
    EXPECT_TRUE(seen.emplace(plan.dp, plan.tp, plan.pp, plan.zero, plan.micro_batch).second);
  }
  // Tensor parallelism over nodes, and fewer micro-batches than stages, are slow but legal.
  EXPECT_TRUE(seen.contains({1, 16, 1, 0, 1}));
  EXPECT_TRUE(seen.contains({2, 1, 8, 1, 16}));
}

TEST(SearchPlansTest, OnlyKeepsPartsAsTheyAre) {
  PlanQuestion question = Question("llama-3-8b");
  question.best = 0;
  question.only = {{"tp", "2"}, {"zero", "1"}, {"recompute", "3"}};
  const PlanAnswer answer = SearchPlans(question);
  ASSERT_FALSE(answer.plans.empty());
  for (const ScoredPlan& scored : answer.plans) {
    EXPECT_EQ(scored.plan.tp, 2);
    EXPECT_EQ(scored.plan.zero, 1);
    EXPECT_EQ(scored.plan.recompute.As<std::int64_t>() != nullptr, true);
  }
  question.only = {{"micro-batch", "2"}};
  try {
    SearchPlans(question);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("only: has \"micro-batch\" (dp, tp, "));
    EXPECT_THAT(error.what(), HasSubstr("; did you mean micro_batch?"));
  }
  question.only = {{"tp", "two"}};
  EXPECT_THROW(SearchPlans(question), InputError);
  for (const OptionMap& only : std::vector<OptionMap>{{{"tp", "3"}},
                                                      {{"zero", "4"}},
                                                      {{"sequence_parallel", "maybe"}},
                                                      {{"schedule", "zb-h3"}},
                                                      {{"precision", "int8"}},
                                                      {{"ep", "2"}}}) {  // a network without experts
    question.only = only;
    EXPECT_THROW(SearchPlans(question), InputError) << only.begin()->first;
  }
  // A sequence of an odd length is not divided by tensor parallelism, so that only tp 1 is left.
  question.sequence = 4095;
  question.only = {{"sequence_parallel", "true"}};
  for (const ScoredPlan& scored : SearchPlans(question).plans) EXPECT_EQ(scored.plan.tp, 1);
}

TEST(SearchPlansTest, TheAnswerIsTheSameWithAnyNumberOfThreads) {
  PlanQuestion question = Question("llama-3-8b");
  question.network.layers = 48;
  question.only = {{"cp", "1"}, {"vpp", "1"}, {"micro_batch", "1"}};
  question.threads = 1;
  const PlanAnswer one = SearchPlans(question);
  question.threads = 3;
  const PlanAnswer three = SearchPlans(question);
  ASSERT_EQ(one.plans.size(), three.plans.size());
  for (std::size_t i = 0; i < one.plans.size(); ++i) {
    EXPECT_EQ(one.plans[i].time.micros, three.plans[i].time.micros);
    EXPECT_EQ(one.plans[i].peak.reserved_bytes, three.plans[i].peak.reserved_bytes);
  }
  EXPECT_EQ(one.checked, three.checked);
}

TEST(SearchPlansTest, WhereNothingFitsTheNearestIsTold) {
  PlanQuestion question = Question("llama-3-70b");
  question.only = {{"cp", "1"}, {"vpp", "1"}};
  const PlanAnswer answer = SearchPlans(question);
  EXPECT_EQ(answer.fitting, 0U);
  EXPECT_TRUE(answer.plans.empty());
  ASSERT_TRUE(answer.nearest.has_value());
  EXPECT_GT(answer.nearest->peak.reserved_bytes, answer.usable_bytes);
}

TEST(SearchPlansTest, TheNearestIsTheSmallestOfAll) {
  for (const char* const network :
       {"llama-3-70b", "gpt-3-175b"}) {  // the state of the second is too large in all plans
    PlanQuestion question = Question(network);
    question.sequence = 2048;
    question.global_batch = 4;
    question.only = {{"vpp", "1"}, {"cp", "1"}};
    const PlanAnswer answer = SearchPlans(question);
    ASSERT_TRUE(answer.nearest.has_value()) << network;
    question.best = 0;
    for (const ScoredPlan& scored : SearchPlans(question).plans) {
      EXPECT_GE(scored.needed_bytes, answer.nearest->needed_bytes) << network;
    }
  }
}

TEST(SearchPlansTest, ASearchThatIsStoppedHasPlansThatFit) {
  PlanQuestion question = Question("llama-3-8b", "dgx-h100", 2);
  const std::size_t legal = SearchPlans(question).legal;
  std::atomic<int> asked = 0;
  question.is_stopped = [&] { return ++asked > 200; };
  const PlanAnswer answer = SearchPlans(question);
  EXPECT_FALSE(answer.is_complete);
  EXPECT_GE(answer.legal, 100U);
  EXPECT_LT(answer.legal, legal / 2);
  ASSERT_FALSE(answer.plans.empty());
  EXPECT_TRUE(answer.plans[0].fits);
  // At once, some plan is timed all the same.
  question.is_stopped = [] { return true; };
  EXPECT_GE(SearchPlans(question).legal, 1U);
}

TEST(SearchPlansTest, SomeLayersAreRecomputedWhereThatIsEnough) {
  const PlanAnswer answer = SearchPlans(Question("llama-3-8b"));
  const auto found = std::ranges::find_if(
      answer.plans, [](const ScoredPlan& of) { return of.plan.recompute.As<std::int64_t>() != nullptr; });
  ASSERT_NE(found, answer.plans.end());
  // With one layer fewer it would not fit.
  ParallelPlan fewer = found->plan;
  fewer.recompute = ToJson(*found->plan.recompute.As<std::int64_t>() - 1);
  std::int64_t largest = 0;
  const PlanQuestion question = Question("llama-3-8b");
  for (const RankPeak& peak : PipelinePeaks(SetupOf(question, fewer))) {
    largest = std::max(largest, peak.reserved_bytes);
  }
  EXPECT_GT(largest, answer.usable_bytes);
}

TEST(SearchPlansTest, ObjectivesOverAcceleratorsLookAtFewerOfThem) {
  PlanQuestion question = Question("llama-3-8b");
  question.network.layers = 16;
  question.only = {{"cp", "1"}, {"micro_batch", "1"}, {"recompute", "none"}};
  const std::vector<std::int64_t> sizes = question.machine.PartSizes();
  EXPECT_EQ(sizes, (std::vector<std::int64_t>{1, 2, 4, 8}));
  std::map<std::int64_t, double> fastest;  // of each number of accelerators that has a plan which fits
  for (const std::int64_t size : sizes) {
    PlanQuestion part = question;
    part.machine = question.machine.Part(size);
    EXPECT_EQ(part.machine.gpus(), size);
    for (const ScoredPlan& scored : SearchPlans(part).plans) {
      double& known = fastest.emplace(size, scored.time.micros).first->second;
      known = std::min(known, scored.time.micros);
    }
  }
  ASSERT_GE(fastest.size(), 2U);
  ASSERT_LT(fastest.begin()->first, 8);
  question.objective = PlanObjective::kGpus;
  const PlanAnswer fewest = SearchPlans(question);
  for (const ScoredPlan& scored : fewest.plans) EXPECT_EQ(scored.plan.devices(), fastest.begin()->first);
  // Within a time that only a larger number reaches.
  question.within = 0.99 * fastest.begin()->second / 1e6;
  const PlanAnswer within = SearchPlans(question);
  ASSERT_FALSE(within.plans.empty());
  EXPECT_EQ(within.plans[0].plan.devices(), std::next(fastest.begin())->first);
  for (const ScoredPlan& scored : within.plans) EXPECT_LE(scored.time.micros, *question.within * 1e6);
  // Within a time that none reaches.
  question.within = 0.99 * fastest.at(8) / 1e6;
  const PlanAnswer none = SearchPlans(question);
  EXPECT_TRUE(none.plans.empty());
  EXPECT_EQ(none.fitting, 0U);
  ASSERT_TRUE(none.fastest.has_value());
  EXPECT_EQ(none.fastest->time.micros, fastest.at(8));
  EXPECT_FALSE(none.nearest.has_value());
  question.within.reset();

  double cheapest = std::numeric_limits<double>::infinity();
  for (const auto& [size, micros] : fastest) cheapest = std::min(cheapest, static_cast<double>(size) * micros);
  for (const PlanObjective objective : {PlanObjective::kTokensPerGpu, PlanObjective::kCost}) {
    question.objective = objective;
    question.price = 2.5;
    const PlanAnswer answer = SearchPlans(question);
    ASSERT_EQ(answer.plans.size(), 20U);
    double last = 0;
    std::set<std::int64_t> seen;
    for (const ScoredPlan& scored : answer.plans) {
      const double micros = static_cast<double>(scored.plan.devices()) * scored.time.micros;
      EXPECT_GE(micros, last) << Name(objective);
      last = micros;
      seen.insert(scored.plan.devices());
    }
    EXPECT_EQ(static_cast<double>(answer.plans[0].plan.devices()) * answer.plans[0].time.micros, cheapest);
    EXPECT_GE(seen.size(), 2U);
  }
}

TEST(SearchPlansTest, ObjectivesThatDoNotGoWithOtherOptionsAreRefused) {
  const auto told = [](const PlanQuestion& question) {
    try {
      SearchPlans(question);
    } catch (const InputError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  PlanQuestion question = Question("llama-3-8b");
  question.prefix = "--";
  question.within = 1;
  EXPECT_THAT(told(question), HasSubstr("--within: needs another --objective than step_time"));
  question.objective = PlanObjective::kCost;
  EXPECT_THAT(told(question), HasSubstr("--price: is missing"));
  EXPECT_EQ(NamedObjective("gpus", ""), PlanObjective::kGpus);
  EXPECT_THAT(ObjectiveNames(), ::testing::ElementsAre("step_time", "tokens_per_s_per_gpu", "gpus", "cost"));
  try {
    NamedObjective("gpu", "--objective");
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("did you mean gpus?"));
  }
}

TEST(SearchPlansTest, TheBestAreSimulated) {
  PlanQuestion question = Question("llama-3-8b", "dgx-h100", 2);
  question.only = {{"pp", "4"}};
  const PlanAnswer answer = SearchPlans(question);
  ASSERT_EQ(answer.plans.size(), 20U);
  for (std::size_t i = 0; i < answer.plans.size(); ++i) {
    const ScoredPlan& scored = answer.plans[i];
    ASSERT_TRUE(scored.estimated_micros.has_value());
    EXPECT_NEAR(scored.time.micros / *scored.estimated_micros, 1, 0.1);
    EXPECT_EQ(ScorePlan(question, scored.plan).time.micros, scored.time.micros);
    if (i > 1) {
      EXPECT_GE(scored.time.micros, answer.plans[i - 1].time.micros);
    }
  }
  question.simulated = 0;
  for (const ScoredPlan& scored : SearchPlans(question).plans) EXPECT_FALSE(scored.estimated_micros.has_value());
}

TEST(SearchPlansTest, FrameworksHaveTheirOwnSchedules) {
  PlanQuestion question = Question("llama-3-8b", "dgx-h100", 2);
  question.network.layers = 16;
  question.only = {{"pp", "4"}, {"micro_batch", "1"}, {"cp", "1"}};
  question.best = 0;
  const auto schedules = [&] {
    std::set<std::string> seen;
    for (const ScoredPlan& scored : SearchPlans(question).plans) {
      seen.insert(scored.plan.schedule);
      EXPECT_EQ(scored.plan.vpp > 1, scored.plan.schedule == "interleaved" || scored.plan.schedule == "zb-v");
    }
    return seen;
  };
  EXPECT_EQ(schedules(), (std::set<std::string>{"1f1b", "interleaved"}));
  EXPECT_TRUE(SearchPlans(question).notes.empty());
  for (const std::string schedule : {"gpipe", "zb-h1", "zb-v", "dualpipe"}) {
    question.only["schedule"] = schedule;
    EXPECT_EQ(schedules(), std::set<std::string>{schedule});
    EXPECT_THAT(PlanNotes(question, schedule),
                ::testing::ElementsAre(HasSubstr("megatron has no schedule " + schedule)));
  }
  question.only.erase("schedule");
  question.framework = FindFrameworkHabits("torchtitan");
  EXPECT_EQ(schedules(), (std::set<std::string>{"1f1b", "interleaved", "zb-v"}));
  // The memory of other networks is that of another framework.
  EXPECT_TRUE(PlanNotes(question, "zb-v").empty());
  question.network = *FindTransformer("mixtral-8x7b");
  EXPECT_THAT(PlanNotes(question, ""), ::testing::ElementsAre(HasSubstr("mixtral-8x7b is none: Megatron-LM's")));
  question.framework = FindFrameworkHabits("deepspeed");
  EXPECT_THAT(PlanNotes(question, ""), ::testing::ElementsAre(HasSubstr("taken for Megatron-LM's")));
}

TEST(SearchPlansTest, HybridsAreDividedByTheirHeadsAndGroups) {
  PlanQuestion question = Question("nemotron-3-nano-30b-a3b", "dgx-h100", 2);
  question.only = {{"pp", "1"}, {"micro_batch", "1"}};
  question.best = 0;
  const PlanAnswer answer = SearchPlans(question);
  std::set<std::int64_t> tp, cp, ep;
  for (const ScoredPlan& scored : answer.plans) {
    tp.insert(scored.plan.tp);
    cp.insert(scored.plan.cp);
    ep.insert(scored.plan.ep);
  }
  EXPECT_EQ(tp, (std::set<std::int64_t>{1, 2, 4, 8}));  // 8 groups of B and C
  EXPECT_TRUE(cp.contains(2));
  EXPECT_TRUE(ep.contains(16));
  question.framework = FindFrameworkHabits("torchtitan");
  try {
    SearchPlans(question);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("framework: is torchtitan, which has no networks with layers of one part, as "
                                        "nemotron-3-nano-30b-a3b is"));
  }
}

TEST(SearchPlansTest, StagesAreEvenWithTheEmbeddingAndTheLossToo) {
  PlanQuestion question = Question("llama-3.1-405b", "dgx-h100", 16);  // 126 layers
  question.best = 0;
  question.only = {{"tp", "8"}, {"pp", "8"}, {"cp", "1"}, {"micro_batch", "1"}, {"zero", "1"}, {"recompute", "none"}};
  std::set<std::int64_t> vpp;
  for (const ScoredPlan& scored : SearchPlans(question).plans) vpp.insert(scored.plan.vpp);
  EXPECT_EQ(vpp, (std::set<std::int64_t>{1, 2, 4, 8, 16}));
}

TEST(SearchPlansTest, ReasonsOfIllegalPlansAreCounted) {
  PlanQuestion question = Question("gpt-3-175b", "dgx-a100", 16);
  question.network.layers = 24;
  question.global_batch = 24;
  question.sequence = 2048;
  const PlanAnswer answer = SearchPlans(question);
  EXPECT_GT(answer.refused.at("dp does not divide the global batch"), 0U);
  question.global_batch = 1;
  question.only = {{"dp", "2"}};
  try {
    SearchPlans(question);
    FAIL();
  } catch (const InputError& error) {
    EXPECT_THAT(error.what(), HasSubstr("dp does not divide the global batch"));
  }
}

}  // namespace
}  // namespace emplace::datasets
