#include "sim/schedule/schedule_explanation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "sim/base/rng.h"

namespace emplace::testing {
namespace schedule_explanation_test {

using std::chrono::nanoseconds;
using ::testing::ElementsAre;
using enum ActionKind;

PipelineStage StageOf(std::int64_t forward, std::int64_t input, std::int64_t weight) {
  return {
      .forward = nanoseconds(forward), .backward_input = nanoseconds(input), .backward_weight = nanoseconds(weight)};
}

PipelineSchedule Make(const std::string& name, std::size_t ranks, std::size_t micro_batches) {
  return MakeSchedule(ParseScheduleName(name, ""), ranks, micro_batches);
}

ScheduleExplanation Explain(const PipelineSchedule& schedule, const PipelineModel& model) {
  return ExplainSchedule(schedule, model, SimulateSchedule(schedule, model));
}

std::string ChainText(const ScheduleExplanation& explanation) {
  std::string text;
  for (const ScheduleChainPart& part : explanation.chain) {
    text += std::string(Name(part.kind)) + " " + std::to_string(part.rank) + " " + std::to_string(part.begin.count()) +
            "-" + std::to_string(part.end.count()) + "; ";
  }
  return text;
}

// The fields of each rank add up to the step, and so does the chain, which has no hole.
void ExpectWhole(const ScheduleExplanation& explanation) {
  Duration at{};
  for (const ScheduleChainPart& part : explanation.chain) {
    EXPECT_EQ(part.begin, at);
    EXPECT_GT(part.length(), Duration{});
    at = part.end;
  }
  EXPECT_EQ(at, explanation.step_time);
  for (const RankUse& use : explanation.ranks) {
    EXPECT_EQ(use.busy + use.waiting_for_ranks + use.waiting_for_transfers + use.waiting_for_team +
                  use.waiting_for_collectives + use.sending + use.idle,
              explanation.step_time);
    for (const Duration part : {use.waiting_for_ranks, use.waiting_for_transfers, use.waiting_for_team,
                                use.waiting_for_collectives, use.sending, use.idle}) {
      EXPECT_GE(part, Duration{});
    }
  }
  for (const auto& actions : explanation.slack) {
    for (const Duration slack : actions) EXPECT_GE(slack, Duration{});
  }
}

TEST(ScheduleExplanationTest, OneMicroBatchGoesThereAndBack) {
  // 0F 0-4, sent until 7, 1F 7-11, 1B 11-17, sent until 22, 0B 22-28.
  const std::vector<std::size_t> ranks = {0, 1};
  const PipelineModel model = ChainModel(ranks, std::vector<PipelineStage>(2, StageOf(4, 5, 1)),
                                         {.forward = nanoseconds(3), .backward = nanoseconds(5)});
  const ScheduleExplanation explanation = Explain(Make("gpipe", 2, 1), model);
  ExpectWhole(explanation);
  EXPECT_EQ(ChainText(explanation),
            "forward 0 0-4; transfer 0 4-7; forward 1 7-11; backward 1 11-17; transfer 1 17-22; backward 0 22-28; ");
  EXPECT_EQ(explanation.totals[static_cast<std::size_t>(ScheduleChainKind::kTransfer)], nanoseconds(8));
  EXPECT_EQ(explanation.ranks[0].waiting_for_ranks, nanoseconds(13));  // from 4 to 17
  EXPECT_EQ(explanation.ranks[0].waiting_for_transfers, nanoseconds(5));
  EXPECT_EQ(explanation.ranks[0].on_chain, nanoseconds(10));
  EXPECT_EQ(explanation.ranks[1].waiting_for_ranks, nanoseconds(4));
  EXPECT_EQ(explanation.ranks[1].waiting_for_transfers, nanoseconds(3));
  EXPECT_EQ(explanation.ranks[1].idle, nanoseconds(11));
  for (const auto& actions : explanation.slack) EXPECT_THAT(actions, ElementsAre(Duration{}, Duration{}));
}

TEST(ScheduleExplanationTest, TheChainFollowsTheSlowRank) {
  // Rank 1 takes 10 for each forward: rank 0 has slack where it is ahead.
  const std::vector<std::size_t> ranks = {0, 1};
  const std::vector<PipelineStage> stages = {StageOf(1, 1, 0), StageOf(10, 10, 0)};
  const ScheduleExplanation explanation = Explain(Make("gpipe", 2, 3), ChainModel(ranks, stages));
  ExpectWhole(explanation);
  EXPECT_EQ(ChainText(explanation),
            "forward 0 0-1; forward 1 1-11; forward 1 11-21; forward 1 21-31; backward 1 31-41; backward 1 41-51; "
            "backward 1 51-61; backward 0 61-62; ");
  // 0F1 ends at 2, and 1F1 needs it at 11.
  EXPECT_EQ(explanation.slack[0][1], nanoseconds(9));
  EXPECT_EQ(explanation.slack[1][1], Duration{});
}

TEST(ScheduleExplanationTest, ChannelsAndSendingAreCauses) {
  // Transfers take 10, forwards 4, the gap 1: the second message leaves at 15.
  const std::vector<std::size_t> ranks = {0, 1};
  PipelineModel model =
      ChainModel(ranks, std::vector<PipelineStage>(2, StageOf(4, 4, 0)), {.forward = nanoseconds(10)});
  model.messages[0].route.gap = nanoseconds(1);
  const PipelineSchedule schedule = Make("gpipe", 2, 2);
  ScheduleExplanation explanation = Explain(schedule, model);
  ExpectWhole(explanation);
  EXPECT_EQ(ChainText(explanation).rfind("forward 0 0-4; transfer 0 4-14; gap 0 14-15; transfer 0 15-25; ", 0), 0U)
      << ChainText(explanation);
  EXPECT_EQ(explanation.ranks[0].sending, Duration{});
  model.ranks[0].copy_engine = false;  // 0F1 starts at 15
  explanation = Explain(schedule, model);
  ExpectWhole(explanation);
  EXPECT_EQ(ChainText(explanation).rfind("forward 0 0-4; transfer 0 4-14; gap 0 14-15; forward 0 15-19; ", 0), 0U)
      << ChainText(explanation);
  EXPECT_GE(explanation.ranks[0].sending, nanoseconds(11));
}

TEST(ScheduleExplanationTest, FinalOpsAndCollectivesAreOnTheChain) {
  // Both ranks are done at 10 and 8. They reduce for 6 once both are, and then update for 3 and for 1.
  const std::vector<std::size_t> ranks = {0, 1};
  PipelineModel model = ChainModel(ranks, std::vector<PipelineStage>{StageOf(2, 2, 0), StageOf(3, 3, 0)});
  model.final_collectives = {{.num_members = 2, .time = nanoseconds(6)}};
  model.final_ops = {{.rank = 0, .collective = 0},
                     {.rank = 1, .collective = 0},
                     {.rank = 0, .time = nanoseconds(3), .reads = {0}},
                     {.rank = 1, .time = nanoseconds(1), .reads = {1}}};
  const ScheduleExplanation explanation = Explain(Make("gpipe", 2, 1), model);
  ExpectWhole(explanation);
  EXPECT_EQ(ChainText(explanation),
            "forward 0 0-2; forward 1 2-5; backward 1 5-8; backward 0 8-10; collective 0 10-16; update 0 16-19; ");
  EXPECT_EQ(explanation.ranks[1].waiting_for_collectives, nanoseconds(8));  // from 8 on
  EXPECT_THAT(explanation.final_slack, ElementsAre(Duration{}, nanoseconds(2), Duration{}, nanoseconds(2)));
}

TEST(ScheduleExplanationTest, ATeamWaitsForEachOther) {
  // Ranks 0 and 1 act together on what rank 2 sends them, to rank 1 later.
  PipelineModel model = ChainModel(std::vector<std::size_t>{0}, std::vector<PipelineStage>{StageOf(1, 1, 0)});
  model.stages.push_back(model.stages[0]);
  model.rank_of_stage = {0, 1};
  model.schedule_rank = {0, 0};
  model.schedule_stage = {0, 0};
  model.teams = {{0, 1}};
  model.ranks.resize(3);
  model.num_channels = 2;
  model.messages = {
      {.route = {.from = 2, .to = 0, .channel = 0, .transfer = nanoseconds(3)}, .readers = {{0, kForward}}},
      {.route = {.from = 2, .to = 1, .channel = 1, .transfer = nanoseconds(5)}, .readers = {{1, kForward}}}};
  const ScheduleExplanation explanation = Explain(Make("gpipe", 1, 1), model);
  ExpectWhole(explanation);
  EXPECT_EQ(explanation.ranks[0].waiting_for_transfers, nanoseconds(3));
  EXPECT_EQ(explanation.ranks[0].waiting_for_team, nanoseconds(2));
  EXPECT_EQ(explanation.ranks[1].waiting_for_transfers, nanoseconds(5));
  EXPECT_EQ(explanation.ranks[2].idle, explanation.step_time);
  EXPECT_EQ(ChainText(explanation).rfind("transfer 2 0-5; forward ", 0), 0U) << ChainText(explanation);
}

// If any part of the chain were longer, the step would be too.
TEST(ScheduleExplanationTest, LongerPartsOfTheChainMakeRandomStepsLonger) {
  Rng rng(7);
  const std::vector<std::string> names = {"gpipe", "1f1b", "zb-h1", "interleaved:2", "zb-v"};
  for (int round = 0; round < 200 && !::testing::Test::HasFailure(); ++round) {
    const ScheduleName name = ParseScheduleName(names[rng.Below(names.size())], "");
    const std::size_t ranks = 2 + rng.Below(3);
    const std::vector<std::size_t> rank_of_stage = RankOfStage(name, ranks);
    std::vector<PipelineStage> stages;
    for (std::size_t s = 0; s < rank_of_stage.size(); ++s) {
      stages.push_back(StageOf(rng.Between(1, 9), rng.Between(1, 9), rng.Between(0, 9)));
    }
    PipelineModel model = ChainModel(
        rank_of_stage, stages, {.forward = nanoseconds(rng.Between(0, 6)), .backward = nanoseconds(rng.Between(0, 6))});
    for (PipelineMessage& message : model.messages) message.route.gap = nanoseconds(rng.Between(0, 2));
    for (PipelineModel::Rank& rank : model.ranks) rank.copy_engine = rng.Below(3) > 0;
    const PipelineSchedule schedule = MakeSchedule(name, ranks, ranks * (2 + rng.Below(3)));
    const ScheduleExplanation explanation = Explain(schedule, model);
    ExpectWhole(explanation);
    std::size_t forwards = 0;
    for (const ScheduleChainPart& part : explanation.chain) {
      forwards += part.kind == ScheduleChainKind::kForward && part.action->stage == 0 ? 1 : 0;
      if (part.action && part.kind != ScheduleChainKind::kTransfer && part.kind != ScheduleChainKind::kGap) {
        const auto& actions = schedule.ranks[part.rank];
        const auto at = std::find(actions.begin(), actions.end(), *part.action) - actions.begin();
        EXPECT_EQ(explanation.slack[part.rank][static_cast<std::size_t>(at)], Duration{});
      }
    }
    model.stages[0].forward += nanoseconds(5);
    EXPECT_GE(SimulateSchedule(schedule, model).step_time,
              explanation.step_time + nanoseconds(5) * static_cast<std::int64_t>(forwards));
  }
}

}  // namespace schedule_explanation_test
}  // namespace emplace::testing
