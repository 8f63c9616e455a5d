#include "sim/schedule/steady_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>
#include <vector>

#include "sim/base/check.h"
#include "sim/base/rng.h"
#include "tests/testing/graphs.h"

namespace emplace::testing {
namespace steady_state_test {

using std::chrono::nanoseconds;
using ::testing::Each;
using ::testing::Field;
using ::testing::SizeIs;
using enum ActionKind;

PipelineStage StageOf(std::int64_t forward, std::int64_t input, std::int64_t weight) {
  return {
      .forward = nanoseconds(forward), .backward_input = nanoseconds(input), .backward_weight = nanoseconds(weight)};
}

SteadyState SteadyOf(const std::string& schedule, std::size_t ranks, const PipelineModel& model) {
  return FindSteadyState(ParseScheduleName(schedule, ""), ranks, model);
}

TEST(SteadyStateTest, EqualStagesTakeTheirWork) {
  const std::vector<std::size_t> ranks = {0, 1, 2, 3};
  const PipelineModel model = ChainModel(ranks, std::vector<PipelineStage>(4, StageOf(3, 2, 2)));
  for (const std::string schedule : {"gpipe", "1f1b", "zb-h1"}) {
    EXPECT_DOUBLE_EQ(SteadyOf(schedule, 4, model).MicrosPerMicroBatch(), 0.007) << schedule;
  }
  const std::vector<std::size_t> looped = {0, 1, 0, 1};
  EXPECT_DOUBLE_EQ(SteadyOf("interleaved:2", 2, ChainModel(looped, model.stages)).MicrosPerMicroBatch(), 0.014);
  const std::vector<std::size_t> v_shaped = {0, 1, 1, 0};
  const PipelineModel equal = ChainModel(v_shaped, std::vector<PipelineStage>(4, StageOf(2, 2, 2)));
  EXPECT_DOUBLE_EQ(SteadyOf("zb-v", 2, equal).MicrosPerMicroBatch(), 0.012);
}

TEST(SteadyStateTest, FewMicroBatchesInFlightWaitForTheirRound) {
  // Forward 4, 3 to send, 4, backward 6, 5 to send, 6: 28 for the two that 1f1b has in flight on two ranks. Each rank
  // works 10.
  const std::vector<std::size_t> ranks = {0, 1};
  const PipelineModel model = ChainModel(ranks, std::vector<PipelineStage>(2, StageOf(4, 5, 1)),
                                         {.forward = nanoseconds(3), .backward = nanoseconds(5)});
  const SteadyState steady = SteadyOf("1f1b", 2, model);
  ASSERT_THAT(steady.circles, SizeIs(1));
  EXPECT_EQ(steady.circles[0].time, nanoseconds(28));
  EXPECT_EQ(steady.circles[0].micro_batches, 2U);
  const Cluster cluster = TwoDevices();
  const std::vector<DeviceId> devices = {MakeId<DeviceId>(1), MakeId<DeviceId>(0)};
  EXPECT_EQ(BottleneckText(steady, cluster, devices),
            "round of 2 micro-batches over " + cluster.devices()[1].name + ", " + cluster.devices()[0].name);
  // gpipe has all in flight: forwards follow one another, and so do backwards.
  const SteadyState all = SteadyOf("gpipe", 2, model);
  EXPECT_THAT(all.circles, SizeIs(2));
  EXPECT_DOUBLE_EQ(all.MicrosPerMicroBatch(), 0.010);
}

TEST(SteadyStateTest, ASlowChannelIsTheBottleneck) {
  const std::vector<std::size_t> ranks = {0, 1};
  PipelineModel model = ChainModel(ranks, std::vector<PipelineStage>(2, StageOf(1, 1, 0)), {.forward = nanoseconds(9)});
  model.messages[0].route.gap = nanoseconds(1);
  const SteadyState steady = SteadyOf("gpipe", 2, model);
  EXPECT_DOUBLE_EQ(steady.MicrosPerMicroBatch(), 0.011);
  EXPECT_THAT(steady.circles[0].steps, Each(Field(&SteadyState::Step::is_message, true)));
  const Cluster cluster = TwoDevices();
  const std::vector<DeviceId> devices = {MakeId<DeviceId>(0), MakeId<DeviceId>(1)};
  const std::string first = cluster.devices()[0].name;
  EXPECT_THAT(BottleneckText(steady, cluster, devices),
              ::testing::StartsWith("transfers from " + first + " to " + cluster.devices()[1].name + "; work of "));
  // Without a copy engine the sender's forward is in the circle.
  model.ranks[0].copy_engine = false;
  const SteadyState slower = SteadyOf("gpipe", 2, model);
  EXPECT_DOUBLE_EQ(slower.MicrosPerMicroBatch(), 0.012);
  EXPECT_THAT(BottleneckText(slower, cluster, devices), ::testing::StartsWith("work and transfers of " + first));
}

TEST(SteadyStateTest, SourcesLoadTheirChannel) {
  const std::vector<std::size_t> ranks = {0, 1};
  PipelineModel model = ChainModel(ranks, std::vector<PipelineStage>(2, StageOf(1, 1, 0)));
  model.messages.push_back({.route = {.from = 0, .to = 1, .channel = model.num_channels, .transfer = nanoseconds(7)},
                            .readers = {{1, kForward}}});
  ++model.num_channels;
  EXPECT_DOUBLE_EQ(SteadyOf("1f1b", 2, model).MicrosPerMicroBatch(), 0.007);
  model.messages.back().once = true;
  EXPECT_DOUBLE_EQ(SteadyOf("1f1b", 2, model).MicrosPerMicroBatch(), 0.002);
}

TEST(SteadyStateTest, TooManyRanksAreRefused) {
  std::vector<std::size_t> ranks(1000);
  for (std::size_t i = 0; i < ranks.size(); ++i) ranks[i] = i;
  const PipelineModel model = ChainModel(ranks, std::vector<PipelineStage>(1000, StageOf(1, 1, 1)));
  EXPECT_THROW(SteadyOf("1f1b", 1000, model), InputError);
}

// A chain with random times, channels that are shared or not, and tensors that skip stages.
PipelineModel RandomChain(Rng& rng, const std::vector<std::size_t>& rank_of_stage) {
  std::vector<PipelineStage> stages;
  for (std::size_t s = 0; s < rank_of_stage.size(); ++s) {
    stages.push_back(StageOf(rng.Between(0, 9), rng.Between(0, 9), rng.Between(0, 9)));
  }
  PipelineModel model = ChainModel(rank_of_stage, stages);
  const std::size_t ranks = model.ranks.size();
  model.num_channels = ranks * ranks;
  const bool per_pair = rng.Below(2) == 0;
  for (PipelineModel::Rank& rank : model.ranks) rank.copy_engine = rng.Below(3) > 0;
  for (std::size_t s = 0; s + 2 < stages.size(); ++s) {
    if (rng.Below(2) == 0) continue;
    model.messages.push_back({.route = {.from = rank_of_stage[s], .to = rank_of_stage[s + 2]},
                              .after = StagePart{s, kForward},
                              .readers = {{s + 2, kForward}, {s + 2, kBackwardInput}}});
  }
  for (PipelineMessage& message : model.messages) {
    PipelineRoute& route = message.route;
    if (route.from == route.to) continue;
    route.transfer = nanoseconds(rng.Between(0, 9));
    route.gap = nanoseconds(rng.Between(0, 2));
    route.channel.reset();
    if (rng.Below(5) > 0)
      route.channel = route.from * ranks + (per_pair && model.ranks[route.from].copy_engine ? route.to : 0);
  }
  return model;
}

TEST(SteadyStateTest, LongStepsGrowByItLengthy) {
  Rng rng(7);
  std::size_t above_load = 0;
  for (int i = 0; i < 400; ++i) {
    const ScheduleEntry& entry = AllSchedules()[rng.Below(AllSchedules().size())];
    ScheduleName name{.entry = &entry};
    if (entry.layout == ScheduleEntry::Layout::kLooped) name.chunks = 1 + rng.Below(3);
    if (entry.layout == ScheduleEntry::Layout::kVShaped) name.chunks = 2;
    const std::size_t ranks = 1 + rng.Below(5);
    const PipelineModel model = RandomChain(rng, RankOfStage(name, ranks));
    const std::size_t few = 24 * ranks;
    const std::size_t more = 240 * ranks;
    const ScheduleResult shorter = SimulateSchedule(MakeSchedule(name, ranks, few), model);
    const ScheduleResult longer = SimulateSchedule(MakeSchedule(name, ranks, more), model);
    const double micros = FindSteadyState(name, ranks, model).MicrosPerMicroBatch();
    const double measured = MicrosFromDuration(longer.step_time - shorter.step_time) / static_cast<double>(more - few);
    // Both steps may be off by a ramp, which is no longer than one micro-batch alone on each stage.
    double one = 0;
    for (const PipelineStage& stage : model.stages) {
      one += MicrosFromDuration(ActionTime(stage, kForward) + ActionTime(stage, kBackward));
    }
    for (const PipelineMessage& message : model.messages) {
      one += MicrosFromDuration(message.route.transfer + message.route.gap);
    }
    EXPECT_NEAR(measured, micros, one / static_cast<double>(more - few) + 1e-9) << entry.name << " " << i;
    EXPECT_GE(micros, MicrosFromDuration(longer.max_load) - 1e-9) << entry.name << " " << i;
    above_load += micros > MicrosFromDuration(longer.max_load) + 1e-9;
  }
  EXPECT_GT(above_load, 50U);
}

}  // namespace steady_state_test
}  // namespace emplace::testing
