#include "sim/schedule/schedule_csv.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

#include "sim/base/check.h"

namespace emplace::testing {
namespace {

PipelineSchedule ReadText(const std::string& text) {
  std::istringstream in(text);
  return ReadScheduleCsv(in, "s.csv");
}

std::string FaultOfText(const std::string& text) {
  try {
    ReadText(text);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(ScheduleCsvTest, WhatIsWrittenIsReadAgain) {
  for (const std::string name : {"gpipe", "1f1b", "interleaved:3", "zb-h1", "zb-v"}) {
    const PipelineSchedule schedule = MakeSchedule(ParseScheduleName(name, ""), 4, 8);
    std::ostringstream out;
    WriteScheduleCsv(out, schedule);
    EXPECT_EQ(ReadText(out.str()), schedule) << name;
  }
}

TEST(ScheduleCsvTest, CommunicationFollowsWhatIsSent) {
  std::ostringstream out;
  WriteScheduleWithCommunication(out, MakeSchedule(ParseScheduleName("1f1b", ""), 2, 2));
  EXPECT_EQ(out.str(),
            "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1,0REDUCE_GRAD\n"
            "1RECV_F0,1F0,1RECV_F1,1B0,1SEND_B0,1F1,1B1,1SEND_B1,1REDUCE_GRAD\n");
  for (const std::string name : {"gpipe", "1f1b", "interleaved:3", "zb-h1", "zb-v"}) {
    const PipelineSchedule schedule = MakeSchedule(ParseScheduleName(name, ""), 4, 8);
    std::ostringstream text;
    WriteScheduleWithCommunication(text, schedule);
    EXPECT_EQ(ReadText(text.str()), schedule) << name;
  }
}

TEST(ScheduleCsvTest, ReadsWhatPyTorchWrites) {
  // Empty cells are steps without work; communication and sharding are left out.
  const PipelineSchedule schedule = ReadText(
      "0UNSHARD,0F0,0SEND_F0,,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0I1,0W1,0REDUCE_GRAD,0RESHARD\r\n"
      ",1RECV_F0, 1F0 ,1B0,1SEND_B0,\"1F1\",1B1,,\r\n\r\n");
  std::ostringstream out;
  WriteScheduleCsv(out, schedule);
  EXPECT_EQ(out.str(), "0F0,0F1,0B0,0I1,0W1\n1F0,1B0,1F1,1B1\n");
  EXPECT_EQ(schedule.num_stages, 2U);
  EXPECT_EQ(schedule.micro_batches, 2U);
}

TEST(ScheduleCsvTest, OlderFilesCallTheInputsPartB) {
  std::ostringstream out;
  WriteScheduleCsv(out, ReadText("0F0,0F1,0BW0,0B1,0W1\n1F0,1B0,1F1,1BW1,1W0\n"));
  EXPECT_EQ(out.str(), "0F0,0F1,0B0,0I1,0W1\n1F0,1I0,1F1,1B1,1W0\n");
  EXPECT_EQ(ReadText("0F0,0BW0\n"), ReadText("0F0,0B0\n"));
}

TEST(ScheduleCsvTest, WrongCellsAreNamed) {
  const std::string allowed = " is not an action (stage, F, B, I or W, and micro-batch, as in 0F3)";
  for (const std::string cell : {"F0", "0X0", "0F", "0", "0F0x", "-1F0", "0FF0", "0f0", "99999999F0", "0F99999999",
                                 "0F0 0B0", "0SEND_F0x", "SEND_F", "0SEND_G0"}) {
    EXPECT_EQ(FaultOfText("0F0," + cell + "\n"), "s.csv: line 1, cell 2: \"" + cell + "\"" + allowed);
  }
  EXPECT_EQ(FaultOfText("(0F0;0B1)OVERLAP_F_B\n"),
            "s.csv: line 1, cell 1: \"(0F0;0B1)OVERLAP_F_B\" runs actions at once (one action in a cell)");
}

TEST(ScheduleCsvTest, WrongLinesAreNamed) {
  EXPECT_EQ(FaultOfText(""), "s.csv: has no lines (a line for each rank, as in 0F0,0B0)");
  EXPECT_EQ(FaultOfText("\n\n"), "s.csv: has no lines (a line for each rank, as in 0F0,0B0)");
  EXPECT_EQ(FaultOfText("0F0,0B0\n,,\n"), "s.csv: line 2: has no actions (a line for each rank)");
  EXPECT_EQ(FaultOfText("0F0,0B0\n\n1F0,1B0\n"), "s.csv: line 2: is empty (a line for each rank)");
  EXPECT_EQ(FaultOfText("0F0,0B0,7F9\n"),
            "s.csv: has 3 actions (F, and B or I and W, of 10 micro-batches in 8 stages)");
  std::string many;
  for (int stage = 0; stage < 1025; ++stage) many += fmt::format("{0}F0,{0}B0\n", stage);
  EXPECT_EQ(FaultOfText(many), "s.csv: line 1025: is one rank too many (1024)");
}

TEST(ScheduleCsvTest, FaultsOfTheScheduleNameTheCellOfTheFile) {
  EXPECT_EQ(FaultOfText("0F0,,0B0,0F0\n"), "s.csv: line 1, cell 4: 0F0 is at line 1, cell 1 too (each action once)");
  EXPECT_EQ(
      FaultOfText(",0B0,,0F0\n"),
      "s.csv: line 1, cell 2: deadlock: 0B0 (line 1, cell 2) waits for 0F0 (line 1, cell 4) (a line runs from left "
      "to right)");
  EXPECT_EQ(FaultOfText("0F0,0B0\n1F0\n"),
            "s.csv: has no 1B0 (each micro-batch runs F, and B or I and W, in each stage)");
}

}  // namespace
}  // namespace emplace::testing
