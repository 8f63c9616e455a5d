#include "experiments/report/hardware.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "sim/base/json_text.h"

namespace emplace {
namespace {

experiments::TrialRecord Trial(const std::string& label, const std::string& source, double simulated, double measured) {
  experiments::TrialRecord trial;
  trial.label = label;
  trial.spec =
      ParseJson(R"({"graph": {"model": "rnnlm", "set": {}}, "hardware": {"reward_source": ")" + source + "\"}}");
  trial.graphs = {{.graph = "rnnlm", .best_micros = simulated}};
  trial.timing = experiments::TimingRecord{
      .hardware = experiments::MeasuredSteps{.checks = {}, .best_micros = measured, .interleaved_micros = {}}};
  return trial;
}

TEST(ReportHardwareTest, PointsAreBestPlacementsThatWereSimulatedAndAllChecks) {
  std::vector<experiments::TrialRecord> trials = {Trial("random", "simulator", 1100, 1000),
                                                  Trial("annealing", "hardware", 900, 950)};
  trials[1].timing->hardware->checks = {{.evaluation = 1, .simulated_micros = 880, .measured_micros = 800}};
  trials.push_back(Trial("never", "simulator", 1, 1));
  trials[2].timing.reset();
  const std::vector<experiments::HardwarePoint> points = experiments::HardwarePoints(trials);
  ASSERT_EQ(points.size(), 2U);
  EXPECT_EQ(points[0].label, "random");
  EXPECT_EQ(points[0].simulated_micros, 1100);
  EXPECT_EQ(points[0].measured_micros, 1000);
  EXPECT_EQ(points[1].simulated_micros, 880);  // the time of the search was measured, not simulated
}

// Errors +10, 0, -20 %: median 10, 90th percentile at position 1.8 of 0, 10, 20, mean -3.3. 1100, 2000, 2400 have the
// same ranks as 1000, 2000, 3000.
TEST(ReportHardwareTest, TheTableHasErrorsAndTheChartADotForEachPlacement) {
  const std::vector<experiments::TrialRecord> trials = {
      Trial("a", "simulator", 1100, 1000), Trial("a", "simulator", 2000, 2000), Trial("b", "simulator", 2400, 3000)};
  const std::vector<experiments::ReportBlock> blocks = experiments::HardwareBlocks(trials, {"a", "b"});
  ASSERT_EQ(blocks.size(), 3U);
  const auto& table = std::get<experiments::TableBlock>(blocks[1]);
  ASSERT_EQ(table.rows.size(), 1U);
  std::vector<std::string> row;
  for (const experiments::TextCell& cell : table.rows[0]) row.push_back(cell.text);
  EXPECT_THAT(std::vector(row.begin() + 1, row.end()),
              ::testing::ElementsAre("3", "10.0", "18.0", "20.0", "-3.3", "1.000"));
  const auto spec = nlohmann::json::parse(std::get<experiments::ChartBlock>(blocks[2]).vega);
  ASSERT_EQ(spec["data"][0]["values"].size(), 3U);
  EXPECT_EQ(spec["data"][0]["values"][2]["x"], 3.0);
  EXPECT_EQ(spec["data"][0]["values"][2]["y"], 2.4);
  EXPECT_EQ(spec["legends"][0]["values"], (nlohmann::json{"a", "b"}));
}

TEST(ReportHardwareTest, OpTimesTakenBetweenTheStepsHaveARowAndAChartOfTheirOwn) {
  std::vector<experiments::TrialRecord> trials = {
      Trial("a", "simulator", 1100, 1000), Trial("a", "simulator", 2000, 2000), Trial("b", "simulator", 2400, 3000)};
  trials[0].timing->hardware->interleaved_micros = 1010;
  trials[2].timing->hardware->interleaved_micros = 2910;
  const std::vector<experiments::ReportBlock> blocks = experiments::HardwareBlocks(trials, {"a", "b"});
  ASSERT_EQ(blocks.size(), 4U);
  const auto& rows = std::get<experiments::TableBlock>(blocks[1]).rows;
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0][1].text, "3");
  std::vector<std::string> row;
  for (const experiments::TextCell& cell : rows[1]) row.push_back(cell.text);
  EXPECT_THAT(row, ::testing::ElementsAre(::testing::HasSubstr("op times taken between the steps"), "2", "2.0", "2.8",
                                          "3.0", "-1.0", "–"));
  const auto spec = nlohmann::json::parse(std::get<experiments::ChartBlock>(blocks[3]).vega);
  ASSERT_EQ(spec["data"][0]["values"].size(), 2U);
  EXPECT_EQ(spec["data"][0]["values"][1]["y"], 2.91);
}

TEST(ReportHardwareTest, WithoutHardwareThereIsNothing) {
  experiments::TrialRecord trial = Trial("a", "simulator", 1, 1);
  trial.timing->hardware->best_micros.reset();
  EXPECT_TRUE(experiments::HardwareBlocks({trial}, {"a"}).empty());
}

}  // namespace
}  // namespace emplace
