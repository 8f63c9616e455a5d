#include "sim/schedule/schedule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "sim/base/check.h"
#include "sim/schedule/schedule_simulator.h"

namespace emplace::testing {
namespace {

using std::chrono::nanoseconds;
using ::testing::ElementsAre;

ScheduleName Named(const std::string& text) { return ParseScheduleName(text, ""); }

std::string RowText(const PipelineSchedule& schedule, std::size_t rank) {
  std::string row;
  for (const PipelineAction& action : schedule.ranks[rank]) row += (row.empty() ? "" : " ") + Text(action);
  return row;
}

std::string RefusalOfSchedule(const std::string& name) {
  try {
    ParseScheduleName(name, "--schedule");
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

std::string FaultOf(const PipelineSchedule& schedule) {
  try {
    CheckSchedule(schedule);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

// All stages alike. `micros` of a stage: forward, input's and weights' part of the backward.
ScheduleResult RunEqual(const std::string& name, std::size_t ranks, std::size_t micro_batches, nanoseconds forward,
                        nanoseconds input, nanoseconds weight) {
  const PipelineSchedule schedule = MakeSchedule(Named(name), ranks, micro_batches);
  CheckSchedule(schedule);
  const std::vector<std::size_t> rank_of_stage = RankOfStage(Named(name), ranks);
  EXPECT_EQ(RankOfStage(schedule), rank_of_stage);
  const std::vector<PipelineStage> stages(schedule.num_stages,
                                          {.forward = forward, .backward_input = input, .backward_weight = weight});
  return SimulateSchedule(schedule, ChainModel(rank_of_stage, stages));
}

struct Size {
  std::size_t ranks = 0;
  std::size_t micro_batches = 0;
};
// Every number of ranks up to 8, and micro-batches up to 20.
std::vector<Size> Sizes() {
  std::vector<Size> sizes;
  for (std::size_t ranks = 1; ranks <= 8; ++ranks) {
    for (std::size_t micro_batches = 1; micro_batches <= 20; ++micro_batches) sizes.push_back({ranks, micro_batches});
  }
  return sizes;
}

std::size_t MostHeld(const ScheduleResult& result) {
  std::size_t most = 0;
  for (const auto& rank : result.ranks) most = std::max(most, rank.micro_batches_held);
  return most;
}

TEST(ScheduleTest, GpipeAndOneForwardOneBackwardTakeTheirClosedForm) {
  // (m + p - 1)(F + B): the bubble is (p - 1) / (m + p - 1) of the step.
  for (const auto& [p, m] : Sizes()) {
    for (const std::string name : {"gpipe", "1f1b"}) {
      const ScheduleResult result = RunEqual(name, p, m, nanoseconds(3), nanoseconds(4), nanoseconds(2));
      EXPECT_EQ(result.step_time.count(), (m + p - 1) * 9) << name << p << " " << m;
      EXPECT_EQ(result.bubble_percent,
                100 * static_cast<double>(9 * p * (p - 1)) / static_cast<double>(9 * p * (m + p - 1)));
      EXPECT_EQ(result.max_load, nanoseconds(9));
      EXPECT_EQ(result.exposed_communication, nanoseconds(0));
      for (std::size_t rank = 0; rank < p; ++rank) {
        EXPECT_EQ(result.ranks[rank].micro_batches_held, name == "gpipe" ? m : std::min(m, p - rank));
        EXPECT_EQ(result.ranks[rank].busy.count(), 9 * m);
      }
    }
  }
}

TEST(ScheduleTest, InterleavingDividesTheBubbleByTheStagesOfADevice) {
  // A device's work is V stages. Beyond m of it, the step takes (p - 1) / V of it.
  for (const auto& [p, m] : Sizes()) {
    if (m % p != 0) continue;
    for (std::size_t v = 2; v <= 4; ++v) {
      const ScheduleResult result =
          RunEqual("interleaved:" + std::to_string(v), p, m, nanoseconds(5), nanoseconds(5), nanoseconds(5));
      EXPECT_EQ(result.step_time.count(), m * v * 15 + (p - 1) * 15);
      EXPECT_EQ(result.max_load.count(), v * 15);
      // p + (p - 1) / V devices' worth of activations, in stages: p V + p - 1. Fewer where all passes are fewer.
      EXPECT_EQ(MostHeld(result), std::min(m * v, p * v + p - 1)) << p << " " << m << " " << v;
    }
  }
}

TEST(ScheduleTest, ZeroBubbleWithoutMoreMemoryHasTheBubbleOfThePaper) {
  // (p - 1)(F + I - W), a third of 1f1b's for F = I = W, from m = p on; at most p are held.
  for (const auto& [p, m] : Sizes()) {
    if (m < p) continue;
    EXPECT_EQ(RunEqual("zb-h1", p, m, nanoseconds(1), nanoseconds(1), nanoseconds(1)).step_time.count(), 3 * m + p - 1);
    const ScheduleResult result = RunEqual("zb-h1", p, m, nanoseconds(10), nanoseconds(13), nanoseconds(7));
    EXPECT_EQ(result.step_time.count(), 30 * m + (p - 1) * (10 + 13 - 7));
    EXPECT_EQ(MostHeld(result), p);
  }
}

TEST(ScheduleTest, TheVShapeHasNoBubbleWithinADevice) {
  // From m = 2p - 1 on, with F = I = W: device r starts r stages late, and is then busy until its end. 2p stages are
  // half of what p devices hold of a micro-batch each.
  for (const auto& [p, m] : Sizes()) {
    if (m + 1 < 2 * p) continue;
    const ScheduleResult result = RunEqual("zb-v", p, m, nanoseconds(2), nanoseconds(2), nanoseconds(2));
    EXPECT_EQ(result.step_time.count(), 2 * (6 * m + p - 1));
    for (std::size_t rank = 0; rank < p; ++rank) {
      EXPECT_EQ(result.ranks[rank].first_start.count(), 2 * rank);
      EXPECT_EQ(result.ranks[rank].end - result.ranks[rank].first_start, result.ranks[rank].busy);
      EXPECT_EQ(result.ranks[rank].micro_batches_held, 2 * p);
    }
  }
}

TEST(ScheduleTest, FewMicroBatchesRunToo) {
  for (const auto& [p, m] : Sizes()) {
    for (const std::string name : {"zb-h1", "zb-v"}) {
      const ScheduleResult result = RunEqual(name, p, m, nanoseconds(1), nanoseconds(1), nanoseconds(1));
      EXPECT_EQ(result.ranks[0].busy.count(), (name == "zb-v" ? 6 : 3) * m);
      EXPECT_LE(MostHeld(result), (name == "zb-v" ? 2 : 1) * std::min(m, p));
    }
  }
}

TEST(ScheduleTest, OrdersAreThoseOfThePapers) {
  const PipelineSchedule interleaved = MakeSchedule(Named("interleaved:2"), 2, 4);
  EXPECT_EQ(RowText(interleaved, 0), "0F0 0F1 2F0 2F1 0F2 2B0 0F3 2B1 2F2 0B0 2F3 0B1 2B2 2B3 0B2 0B3");
  EXPECT_EQ(RowText(MakeSchedule(Named("1f1b"), 3, 4), 1), "1F0 1F1 1B0 1F2 1B1 1F3 1B2 1B3");
  EXPECT_EQ(RowText(MakeSchedule(Named("gpipe"), 2, 2), 1), "1F0 1F1 1B0 1B1");
  EXPECT_EQ(RowText(MakeSchedule(Named("zb-h1"), 2, 3), 1), "1F0 1I0 1F1 1I1 1W0 1F2 1I2 1W1 1W2");
  EXPECT_EQ(RowText(MakeSchedule(Named("zb-v"), 2, 3), 1),
            "1F0 2F0 1F1 2F1 2I0 2W0 1F2 1I0 1W0 2F2 2I1 2W1 1I1 2I2 1I2 1W1 2W2 1W2");
  EXPECT_EQ(Letter(ActionKind::kBackwardInput), 'I');
}

TEST(ScheduleTest, NamesAreRead) {
  EXPECT_EQ(Named("interleaved:3").chunks, 3U);
  EXPECT_EQ(Named("zb-v").chunks, 2U);
  EXPECT_THAT(RankOfStage(Named("zb-v"), 2), ElementsAre(0, 1, 1, 0));
  EXPECT_THAT(RankOfStage(Named("interleaved:2"), 2), ElementsAre(0, 1, 0, 1));
  EXPECT_EQ(RefusalOfSchedule("steam"),
            "--schedule: unknown schedule \"steam\" (gpipe, 1f1b, interleaved, zb-h1, zb-v)");
  for (const std::string wrong : {"interleaved", "interleaved:", "interleaved:1", "interleaved:02", "interleaved:1001",
                                  "interleaved:2x", "interleaved:-2"}) {
    EXPECT_EQ(RefusalOfSchedule(wrong),
              "--schedule: is \"" + wrong + "\" (interleaved:V, with V stages on each device, 2 to 1000)");
  }
  EXPECT_EQ(RefusalOfSchedule("gpipe:2"), "--schedule: is \"gpipe:2\" (gpipe, without a number)");
}

TEST(ScheduleTest, WhatDoesNotExistIsRefused) {
  EXPECT_THROW(MakeSchedule(Named("interleaved:2"), 4, 6), InputError);
  EXPECT_THROW(MakeSchedule(Named("gpipe"), 4, kMaxActions), InputError);
  EXPECT_EQ(AllSchedules().size(), 5U);
}

TEST(ScheduleTest, FaultsAreNamed) {
  const PipelineSchedule good = MakeSchedule(Named("1f1b"), 2, 2);
  EXPECT_EQ(FaultOf(good), "");
  PipelineSchedule twice = good;
  twice.ranks[1].push_back(twice.ranks[1][0]);
  EXPECT_EQ(FaultOf(twice), "line 2, cell 5: 1F0 is at line 2, cell 1 too (each action once)");
  PipelineSchedule moved = good;
  moved.ranks[0].push_back(moved.ranks[1].back());
  moved.ranks[1].pop_back();
  EXPECT_EQ(FaultOf(moved), "line 2, cell 1: stage 1 is at line 1, cell 5 too (a stage is on one line)");
  PipelineSchedule without = good;
  without.ranks[1].pop_back();
  EXPECT_EQ(FaultOf(without), "has no 1B1 (each micro-batch runs F, and B or I and W, in each stage)");
  without.ranks[1].push_back({1, ActionKind::kBackwardInput, 1});
  EXPECT_EQ(FaultOf(without), "has no 1W1 (each micro-batch runs F, and B or I and W, in each stage)");
  without.ranks[1].push_back({1, ActionKind::kBackward, 1});
  EXPECT_EQ(FaultOf(without), "has both 1B1 and 1I1 (B, or I and W)");
}

TEST(ScheduleTest, DeadlocksAreNamed) {
  PipelineSchedule crossed = MakeSchedule(Named("1f1b"), 2, 2);  // 0F0 0F1 0B0 0B1 and 1F0 1B0 1F1 1B1
  std::swap(crossed.ranks[0][1], crossed.ranks[0][2]);
  std::swap(crossed.ranks[1][1], crossed.ranks[1][2]);
  EXPECT_EQ(
      FaultOf(crossed),
      "line 1, cell 2: deadlock: 0B0 (line 1, cell 2) waits for 1B0 (line 2, cell 3); 1F1 (line 2, cell 2) waits for "
      "0F1 (line 1, cell 3) (a line runs from left to right)");
  PipelineSchedule alone = MakeSchedule(Named("gpipe"), 1, 1);
  std::swap(alone.ranks[0][0], alone.ranks[0][1]);
  EXPECT_EQ(
      FaultOf(alone),
      "line 1, cell 1: deadlock: 0B0 (line 1, cell 1) waits for 0F0 (line 1, cell 2) (a line runs from left to right)");
}

}  // namespace
}  // namespace emplace::testing
