#include "experiments/report/plan_sweep.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "sim/base/check.h"

namespace emplace::experiments {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

namespace fs = std::filesystem;

class PlanSweepTest : public ::testing::Test {
 protected:
  PlanSweepTest() : folder_(fs::path(::testing::TempDir()) / "emplace_plan_sweep_test") {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  std::string Write(const std::string& plans) {
    const std::string file = (folder_ / "sweep.yaml").string();
    std::ofstream(file) << "# Which machine?\nschema: emplace.experiment\nversion: 1\nname: machines\nplans:\n"
                        << plans;
    return file;
  }
  std::string Runs() const { return (folder_ / "machines").string(); }

  fs::path folder_;
};

constexpr const char* kTwoByTwo =
    "  network: llama-3-8b\n  set: {layers: 8}\n  cluster: [dgx-h100, dgx-a100]\n  nodes: [1, 2]\n  global_batch: 32\n"
    "  only: {cp: 1, micro_batch: 1}\n";

TEST_F(PlanSweepTest, EachCombinationIsACellWhoseAnswerIsKept) {
  const std::string file = Write(kTwoByTwo);
  EXPECT_TRUE(IsPlanSweep(file));
  const SweepOfPlans sweep = ReadPlanSweep(file);
  EXPECT_EQ(sweep.question, "Which machine?");
  EXPECT_THAT(sweep.swept, ElementsAre("cluster", "nodes"));
  ASSERT_EQ(sweep.cells.size(), 4U);
  EXPECT_EQ(sweep.cells[1].cluster, "dgx-h100");
  EXPECT_EQ(sweep.cells[1].nodes, 2);
  // Stopped within the third cell, it goes on there.
  std::size_t done = 0;
  RunPlanSweep(
      sweep, Runs(), 1, [&](std::size_t cells) { done = cells; }, [&] { return done == 2; });
  EXPECT_EQ(ReadPlanResults(sweep, Runs()).size(), 2U);
  std::vector<fs::file_time_type> times;
  for (const auto& entry : fs::directory_iterator(Runs())) {
    if (entry.path().filename() != "plans.json") times.push_back(fs::last_write_time(entry));
  }
  RunPlanSweep(
      sweep, Runs(), 1, [&](std::size_t cells) { done = cells; }, [] { return false; });
  EXPECT_EQ(done, 4U);
  std::size_t kept = 0;
  for (const auto& entry : fs::directory_iterator(Runs())) {
    kept += static_cast<std::size_t>(std::count(times.begin(), times.end(), fs::last_write_time(entry)));
  }
  EXPECT_GE(kept, 2U);
  const auto found = FindPlanSweep(Runs());
  ASSERT_TRUE(found);
  const std::vector<PlanSweepResult> results = ReadPlanResults(*found, Runs());
  ASSERT_EQ(results.size(), 4U);
  const TableBlock table = PlanSweepTable(*found, results);
  ASSERT_EQ(table.rows.size(), 4U);
  EXPECT_EQ(table.rows[3][0].text, "dgx-a100");
  EXPECT_EQ(table.rows[3][1].text, "2");
  EXPECT_EQ(table.rows[3].back().text, "yes");
  std::ostringstream text;
  WriteMarkdown(text, PlanSweepReport(*found, results));
  EXPECT_THAT(text.str(), HasSubstr("Which machine?"));
  EXPECT_FALSE(FindPlanSweep(folder_.string()));
}

TEST_F(PlanSweepTest, ACellWithoutAPlanSaysWhy) {
  const SweepOfPlans sweep = ReadPlanSweep(
      Write("  network: llama-3-8b\n  cluster: dgx-h100\n  global_batch: 7\n  only: [{dp: 8}, {dp: 1, tp: 8}]\n"));
  RunPlanSweep(
      sweep, Runs(), 1, [](std::size_t) {}, [] { return false; });
  const TableBlock table = PlanSweepTable(sweep, ReadPlanResults(sweep, Runs()));
  EXPECT_THAT(table.rows.at(0).back().text, HasSubstr("dp does not divide the global batch"));
  EXPECT_EQ(table.rows.at(1).back().text, "yes");
}

TEST_F(PlanSweepTest, WhatIsWrongIsAtItsPlace) {
  const auto error = [&](const std::string& plans) {
    try {
      ReadPlanSweep(Write(plans));
    } catch (const InputError& refused) {
      return std::string(refused.what());
    }
    return std::string("none");
  };
  EXPECT_THAT(error("  network: llama-3-8b\n  cluster: dgx-h100\n"), HasSubstr("plans.global_batch"));
  for (const char* const count : {"nodes", "gpus", "sequence", "lora"}) {
    EXPECT_THAT(
        error("  network: llama-3-8b\n  cluster: dgx-h100\n  global_batch: 8\n  " + std::string(count) + ": [1, 0]\n"),
        HasSubstr("plans." + std::string(count) + ": is 0 (an integer from 1)"));
  }
  EXPECT_THAT(error("  network: llama-3-8b\n  cluster: dgx-h100\n  global_batch: 8\n  colour: red\n"),
              HasSubstr("plans.colour"));
  EXPECT_THAT(error("  network: []\n  cluster: dgx-h100\n  global_batch: 8\n"),
              HasSubstr("plans.network: is an empty list"));
  EXPECT_THAT(error("  network: [llama-3-8b, llama-3-8b]\n  cluster: dgx-h100\n  global_batch: 8\n"),
              HasSubstr("twice"));
}

}  // namespace
}  // namespace emplace::experiments
