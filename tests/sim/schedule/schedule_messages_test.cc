#include "sim/schedule/schedule_messages.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace emplace::testing {
namespace {

using std::chrono::nanoseconds;
using ::testing::ElementsAre;
using enum ActionKind;

TEST(ScheduleMessagesTest, SaysWhenMessagesAreSent) {
  // 0F0 0-4 and 0F1 4-8; the channel sends the first 4-14, then the second 14-24.
  const std::vector<std::size_t> ranks = {0, 1};
  const PipelineStage stage = {.forward = nanoseconds(4), .backward_input = nanoseconds(4)};
  const PipelineModel model = ChainModel(ranks, std::vector<PipelineStage>(2, stage), {.forward = nanoseconds(10)});
  const ScheduleMessages messages = SimulateMessages(MakeSchedule(ParseScheduleName("gpipe", ""), 2, 2), model);
  EXPECT_EQ(messages.sent.size(), 4U);  // forward and backward, of each micro-batch
  EXPECT_EQ(messages.Of(0, 0).start, nanoseconds(4));
  EXPECT_EQ(messages.Of(0, 1).start, nanoseconds(14));
  EXPECT_EQ(messages.Of(0, 1).arrival, nanoseconds(24));
  EXPECT_TRUE(messages.final_sent.empty());
}

TEST(ScheduleMessagesTest, ActionsHavePartsAndTheNumbersOfTheSchedule) {
  EXPECT_THAT(PartsOf(kBackward), ElementsAre(kBackwardInput, kBackwardWeight));
  EXPECT_THAT(PartsOf(kForward), ElementsAre(kForward));
  PipelineModel model;
  EXPECT_EQ(Text(InSchedule(model, {.stage = 1, .kind = kForward, .micro_batch = 3})), "1F3");
  model.schedule_stage = {0, 0};  // stages of two replicas
  EXPECT_EQ(Text(InSchedule(model, {.stage = 1, .kind = kForward, .micro_batch = 3})), "0F3");
}

}  // namespace
}  // namespace emplace::testing
