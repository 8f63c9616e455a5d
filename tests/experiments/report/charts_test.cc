#include "experiments/report/charts.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

namespace emplace::testing {
namespace {

using nlohmann::json;

TEST(ReportChartsTest, ACurveChartHoldsItsPointsAndOneColourForEachAgent) {
  const std::vector<experiments::Curve> curves = {{"b", {{1, 2, 1, 3}, {10, 4.123456789, 3, 5}}}};
  const json spec = json::parse(
      experiments::CurveChart(curves, {.x_title = "evaluations", .y_title = "y", .labels = {"a", "b"}, .log_x = true}));
  const json& rows = spec["data"][0]["values"];
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[1]["agent"], "b");
  EXPECT_EQ(rows[1]["mean"], 4.1235);
  EXPECT_EQ(spec["scales"][0]["type"], "log");
  EXPECT_EQ(spec["scales"][1]["domain"][1], 5);
  // The scale has every agent of the page, the legend those drawn.
  EXPECT_EQ(spec["scales"][2]["domain"], (json{"a", "b"}));
  EXPECT_EQ(spec["legends"][0]["values"], json::array({"b"}));
}

TEST(ReportChartsTest, CurvesBelowOneDeviceAreCutOffWhereTheyWouldPressTheOthers) {
  const auto domain = [](double low, double high) {
    const std::vector<experiments::Curve> curves = {{"b", {{1, low, low, low}, {10, high, high, high}}}};
    return json::parse(experiments::CurveChart(curves, {.labels = {"b"}}))["scales"][1]["domain"];
  };
  EXPECT_EQ(domain(-10, 40), (json{-10.0, 40.0}));
  EXPECT_EQ(domain(-900, 40), (json{-40.0, 40.0}));
  EXPECT_EQ(domain(5, 40), (json{0.0, 40.0}));
}

TEST(ReportChartsTest, AScatterChartHasOneScaleForBothAxesAndTheLineOfEquals) {
  const json spec = json::parse(experiments::ScatterChart(
      {{"b", 10, 12}, {"b", 40, 38}}, {.x_title = "measured", .y_title = "simulated", .labels = {"a", "b"}}));
  EXPECT_EQ(spec["scales"][0]["domain"], spec["scales"][1]["domain"]);
  // 10 is below a third of 40, so the axis starts at 0. It ends a twentieth of 40 - 10 beyond the largest.
  EXPECT_EQ(spec["scales"][0]["domain"], (json{0.0, 41.5}));
  EXPECT_EQ(spec["data"][0]["values"].size(), 2U);
  EXPECT_EQ(spec["legends"][0]["values"], json::array({"b"}));
  const json narrow =
      json::parse(experiments::ScatterChart({{"b", 100, 110}}, {.x_title = "", .y_title = "", .labels = {"b"}}));
  EXPECT_EQ(narrow["scales"][0]["domain"], (json{99.5, 110.5}));
}

experiments::PlacementPicture SomePicture(std::size_t lanes) {
  experiments::PlacementPicture picture{
      .graph = "g", .cluster = "c", .step_time_micros = 2000, .devices = {"gpu:0", "gpu:1"}};
  for (std::size_t lane = 0; lane < lanes; ++lane) picture.lanes.push_back("layer" + std::to_string(lane));
  picture.dots = {{"x", 500, 20, 0, 0}, {"y", 1500, 40, lanes - 1, 1}};
  picture.lines = {{520, 0, 0, 1500, lanes - 1, 1, 1048576}};
  return picture;
}

TEST(ReportChartsTest, APictureHoldsOpsInMillisecondsAndTheirDevices) {
  const json spec = json::parse(experiments::PictureChart(SomePicture(2)));
  EXPECT_EQ(spec["data"][0]["name"], "lanes");
  EXPECT_EQ(spec["data"][1]["values"][0]["mib"], 1);
  const json& ops = spec["data"][2]["values"];
  ASSERT_EQ(ops.size(), 2U);
  EXPECT_EQ(ops[1]["x"], 1.5);
  // Two devices in a lane are a quarter of 0.7 above and below its middle.
  EXPECT_EQ(ops[0]["y"], -0.175);
  EXPECT_EQ(ops[1]["y"], 1.175);
  EXPECT_EQ(spec["data"][1]["values"][0]["y2"], 1.175);
  EXPECT_EQ(ops[1]["device"], "gpu:1");
  EXPECT_EQ(ops[1]["layer"], "layer1");
  EXPECT_EQ(spec["axes"][1]["values"].size(), 2U);
}

TEST(ReportChartsTest, ManyLayersAreCountedNotNamed) {
  const json spec = json::parse(experiments::PictureChart(SomePicture(41)));
  EXPECT_EQ(spec["axes"][1]["labels"], false);
  EXPECT_EQ(spec["axes"][1]["title"], "41 layers, first ones on top");
}

TEST(ReportChartsTest, BytesThatAreNoTextDoNotBreakASpecification) {
  experiments::PlacementPicture picture = SomePicture(1);
  picture.dots[0].op = "\xff\xfe";
  EXPECT_FALSE(json::parse(experiments::PictureChart(picture), nullptr, /*allow_exceptions=*/false).is_discarded());
}

}  // namespace
}  // namespace emplace::testing
