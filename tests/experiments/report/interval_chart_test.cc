#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "experiments/report/charts.h"

namespace emplace::testing {
namespace {

using nlohmann::json;

json Chart(const std::vector<experiments::IntervalRow>& rows, const std::vector<experiments::ChartLine>& lines) {
  return json::parse(experiments::IntervalChart(rows, {.x_title = "improvement, %", .lines = lines}));
}

TEST(ReportIntervalChartTest, RowsAndLinesAreInTheirPlaces) {
  const json spec = Chart({{.label = "a", .text = "30 [20, 40]", .mean = 30, .low = 20, .high = 40},
                           {.label = "b", .text = "10", .mean = 10, .low = 10, .high = 10, .is_hollow = true}},
                          {{"one device", 0}, {"lower bound", 60}});
  const json& rows = spec["data"][0]["values"];
  EXPECT_EQ(rows[0]["low"], 20);
  EXPECT_EQ(rows[0]["high"], 40);
  EXPECT_EQ(rows[0]["text"], "30 [20, 40]");
  EXPECT_NE(rows[0]["fill"], "Canvas");
  EXPECT_EQ(rows[1]["fill"], "Canvas");
  EXPECT_EQ(rows[1]["shape"], "circle");
  // From 0 to 60, with a margin of 3 % on both sides.
  EXPECT_EQ(spec["scales"][0]["domain"], (json{-1.8, 61.8}));
  EXPECT_EQ(spec["scales"][1]["domain"], (json{0, 1}));
  EXPECT_EQ(spec["height"], 52);
}

TEST(ReportIntervalChartTest, ARowFarBelowIsCutOff) {
  EXPECT_TRUE(experiments::HasCutRow({{.mean = 30}, {.mean = -900}}, {}));
  EXPECT_FALSE(experiments::HasCutRow({{.mean = 30, .high = 30}, {.mean = -20, .low = -20}}, {}));
  const json spec = Chart(
      {{.label = "a", .mean = 30, .low = 20, .high = 40}, {.label = "far", .mean = -900, .low = -1000, .high = -800}},
      {{"one device", 0}, {"lower bound", 60}});
  const double leftmost = spec["scales"][0]["domain"][0];
  EXPECT_LT(leftmost, -90);
  EXPECT_GT(leftmost, -100);
  const json& far = spec["data"][0]["values"][1];
  EXPECT_EQ(far["shape"], "triangle-left");
  EXPECT_EQ(far["mean"], leftmost);
  EXPECT_EQ(far["high"], leftmost);
}

TEST(ReportIntervalChartTest, TheFirstRowIsAlwaysVisible) {
  const json spec = Chart({{.label = "a", .mean = -500, .low = -600, .high = -400}}, {{"one device", 0}});
  EXPECT_EQ(spec["data"][0]["values"][0]["shape"], "circle");
  EXPECT_LT(spec["scales"][0]["domain"][0], -600);
}

}  // namespace
}  // namespace emplace::testing
