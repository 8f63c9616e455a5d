#include "experiments/report/charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "experiments/report/vega.h"

namespace emplace::experiments {
namespace {

using vega::Base;
using vega::ColourScale;
using vega::Constant;
using vega::Field;
using vega::FitWidth;
using vega::Json;
using vega::Printed;
using vega::Rounded;
using vega::Signal;

constexpr std::size_t kMostLaneNames = 40;

Json CurveRows(const std::vector<Curve>& curves) {
  Json rows = Json::array();
  for (const Curve& curve : curves) {
    for (const CurvePoint& point : curve.points) {
      rows.push_back({{"agent", curve.label},
                      {"x", point.x},
                      {"mean", Rounded(point.centre)},
                      {"low", Rounded(point.low)},
                      {"high", Rounded(point.high)}});
    }
  }
  return rows;
}

Json CurveMarks(const CurveChartOptions& options) {
  const Json band = {{"type", "area"},
                     {"name", "band"},
                     {"from", {{"data", "series"}}},
                     {"encode",
                      {{"update",
                        {{"x", Field("x", "x")},
                         {"y", Field("y", "low")},
                         {"y2", Field("y", "high")},
                         {"fill", Field("colour", "agent")},
                         {"fillOpacity", Constant(0.15)}}}}}};
  const std::string tooltip =
      fmt::format("datum.agent + ', ' + datum.x + ' {}: ' + format(datum.mean, '.4')", options.x_title);
  const Json line = {{"type", "line"},
                     {"name", "curve"},
                     {"from", {{"data", "series"}}},
                     {"encode",
                      {{"update",
                        {{"x", Field("x", "x")},
                         {"y", Field("y", "mean")},
                         {"stroke", Field("colour", "agent")},
                         {"strokeWidth", Constant(2)},
                         {"tooltip", Signal(tooltip)}}}}}};
  return Json::array({{{"type", "group"},
                       {"clip", true},
                       {"encode", {{"update", {{"width", Signal("width")}, {"height", Signal("height")}}}}},
                       {"from", {{"facet", {{"name", "series"}, {"data", "curves"}, {"groupby", "agent"}}}}},
                       {"marks", {band, line}}}});
}

// Devices are drawn next to each other within a lane.
double Height(const PlacementPicture& picture, std::size_t lane, std::size_t device) {
  const auto devices = static_cast<double>(picture.devices.size());
  const double offset = (static_cast<double>(device) + 0.5) / devices - 0.5;
  return Rounded(static_cast<double>(lane) + 0.7 * offset);
}

Json PictureDots(const PlacementPicture& picture) {
  Json rows = Json::array();
  for (const auto& dot : picture.dots) {
    rows.push_back({{"op", dot.op},
                    {"x", Rounded(dot.start_micros / 1000)},
                    {"us", Rounded(dot.micros)},
                    {"y", Height(picture, dot.lane, dot.device)},
                    {"layer", picture.lanes[dot.lane]},
                    {"device", picture.devices[dot.device]}});
  }
  return rows;
}

Json PictureLines(const PlacementPicture& picture) {
  Json rows = Json::array();
  for (const auto& line : picture.lines) {
    rows.push_back({{"x", Rounded(line.from_micros / 1000)},
                    {"y", Height(picture, line.from_lane, line.from_device)},
                    {"x2", Rounded(line.to_micros / 1000)},
                    {"y2", Height(picture, line.to_lane, line.to_device)},
                    {"mib", Rounded(line.bytes / 1048576)}});
  }
  return rows;
}

Json PictureMarks() {
  const Json transfers = {{"type", "rule"},
                          {"name", "transfer"},
                          {"from", {{"data", "transfers"}}},
                          {"encode",
                           {{"update",
                             {{"x", Field("x", "x")},
                              {"y", Field("y", "y")},
                              {"x2", Field("x", "x2")},
                              {"y2", Field("y", "y2")},
                              {"stroke", Constant("currentColor")},
                              {"strokeOpacity", Constant(0.25)},
                              {"strokeWidth", Constant(0.6)},
                              {"tooltip", Signal("format(datum.mib, '.3') + ' MiB'")}}}}}};
  const Json ops = {
      {"type", "symbol"},
      {"name", "op"},
      {"from", {{"data", "ops"}}},
      {"encode",
       {{"update",
         {{"x", Field("x", "x")},
          {"y", Field("y", "y")},
          {"size", Field("size", "us")},
          {"fill", Field("colour", "device")},
          {"fillOpacity", Constant(0.8)},
          {"tooltip", Signal("datum.op + ' (' + datum.layer + ') on ' + datum.device + ', ' + format(datum.us, '.4') "
                             "+ ' us from ' + format(datum.x, '.4') + ' ms'")}}}}}};
  return Json::array({transfers, ops});
}

Json LaneAxis(const PlacementPicture& picture) {
  Json axis = {{"orient", "left"}, {"scale", "y"}, {"title", "layer"}, {"grid", false}};
  if (picture.lanes.size() > kMostLaneNames) {
    axis["labels"] = false;
    axis["ticks"] = false;
    axis["title"] = fmt::format("{} layers, first ones on top", picture.lanes.size());
    return axis;
  }
  Json values = Json::array();
  for (std::size_t lane = 0; lane < picture.lanes.size(); ++lane) values.push_back(lane);
  axis["values"] = values;
  const Json text = {{"signal", "data('lanes')[datum.value].name"}};
  axis["encode"] = {{"labels", {{"update", {{"text", text}}}}}};
  return axis;
}

Json LaneRows(const PlacementPicture& picture) {
  Json rows = Json::array();
  for (const std::string& lane : picture.lanes) rows.push_back({{"name", lane}});
  return rows;
}

Json ScatterMarks() {
  const Json equal = {{"type", "line"},
                      {"name", "equal"},
                      {"from", {{"data", "ends"}}},
                      {"encode",
                       {{"update",
                         {{"x", Field("x", "at")},
                          {"y", Field("y", "at")},
                          {"stroke", Constant("currentColor")},
                          {"strokeOpacity", Constant(0.5)}}}}}};
  const Json symbols = {
      {"type", "symbol"},
      {"name", "point"},
      {"from", {{"data", "points"}}},
      {"encode",
       {{"update",
         {{"x", Field("x", "x")},
          {"y", Field("y", "y")},
          {"size", Constant(40)},
          {"fill", Field("colour", "agent")},
          {"fillOpacity", Constant(0.8)},
          {"tooltip", Signal("datum.agent + ': measured ' + format(datum.x, '.4') + ' ms, simulated ' + "
                             "format(datum.y, '.4') + ' ms'")}}}}}};
  return Json::array({equal, symbols});
}

}  // namespace

std::string CurveChart(const std::vector<Curve>& curves, const CurveChartOptions& options) {
  Json shown = Json::array();
  double highest = 0;
  double lowest = 0;
  for (const Curve& curve : curves) {
    shown.push_back(curve.label);
    for (const CurvePoint& point : curve.points) {
      highest = std::max(highest, point.high);
      lowest = std::min(lowest, point.low);
    }
  }
  if (highest <= 0) highest = 1;
  Json spec = FitWidth(Base(300));
  spec["data"] = Json::array({{{"name", "curves"}, {"values", CurveRows(curves)}}});
  Json x = {{"name", "x"},   {"type", options.log_x ? "log" : "linear"},      {"range", "width"}, {"nice", false},
            {"zero", false}, {"domain", {{"data", "curves"}, {"field", "x"}}}};
  if (options.log_x) x.erase("zero");
  const Json y = {
      {"name", "y"}, {"range", "height"}, {"nice", true}, {"domain", {std::max(lowest, -highest), highest}}};
  spec["scales"] = Json::array({x, y, ColourScale(options.labels)});
  const Json x_axis = {{"orient", "bottom"}, {"scale", "x"}, {"title", options.x_title}, {"tickCount", 6}};
  const Json y_axis = {{"orient", "left"}, {"scale", "y"}, {"title", options.y_title}, {"grid", true}};
  spec["axes"] = Json::array({x_axis, y_axis});
  spec["legends"] = Json::array({{{"fill", "colour"},
                                  {"values", shown},
                                  {"orient", "bottom"},
                                  {"columns", Signal("narrow ? 1 : 3")},
                                  {"symbolType", "square"}}});
  spec["marks"] = CurveMarks(options);
  return Printed(spec);
}

std::string ScatterChart(const std::vector<ScatterPoint>& points, const ScatterChartOptions& options) {
  Json rows = Json::array();
  Json shown = Json::array();
  double least = points.empty() ? 0 : points[0].x;
  double most = 0;
  for (const ScatterPoint& point : points) {
    rows.push_back({{"agent", point.label}, {"x", Rounded(point.x)}, {"y", Rounded(point.y)}});
    if (std::find(shown.begin(), shown.end(), Json(point.label)) == shown.end()) shown.push_back(point.label);
    least = std::min({least, point.x, point.y});
    most = std::max({most, point.x, point.y});
  }
  // Margin around the points; from 0 unless all points are far from it.
  const double room = 0.05 * (most - least);
  const Json domain = {Rounded(least < most / 3 ? 0 : least - room), Rounded(most + room)};
  Json spec = Base(360);
  spec["width"] = 360;  // square, independent of the page's width
  spec["data"] = Json::array({{{"name", "points"}, {"values", rows}},
                              {{"name", "ends"}, {"values", {{{"at", domain[0]}}, {{"at", domain[1]}}}}}});
  const Json x = {{"name", "x"}, {"range", "width"}, {"zero", false}, {"domain", domain}};
  const Json y = {{"name", "y"}, {"range", "height"}, {"zero", false}, {"domain", domain}};
  spec["scales"] = Json::array({x, y, ColourScale(options.labels)});
  const Json x_axis = {
      {"orient", "bottom"}, {"scale", "x"}, {"title", options.x_title}, {"tickCount", 6}, {"grid", true}};
  const Json y_axis = {
      {"orient", "left"}, {"scale", "y"}, {"title", options.y_title}, {"tickCount", 6}, {"grid", true}};
  spec["axes"] = Json::array({x_axis, y_axis});
  spec["legends"] = Json::array(
      {{{"fill", "colour"}, {"values", shown}, {"orient", "right"}, {"columns", 1}, {"symbolType", "circle"}}});
  spec["marks"] = ScatterMarks();
  return Printed(spec);
}

std::string PictureChart(const PlacementPicture& picture) {
  double longest = 0;
  for (const auto& dot : picture.dots) longest = std::max(longest, dot.micros);
  const auto lanes = static_cast<double>(picture.lanes.size());
  Json spec = FitWidth(Base(std::clamp(lanes * 24, 160.0, 640.0)));
  spec["data"] = Json::array({{{"name", "lanes"}, {"values", LaneRows(picture)}},
                              {{"name", "transfers"}, {"values", PictureLines(picture)}},
                              {{"name", "ops"}, {"values", PictureDots(picture)}}});
  const Json x = {{"name", "x"}, {"range", "width"}, {"domain", {0, Rounded(picture.step_time_micros / 1000)}}};
  const Json y = {{"name", "y"}, {"range", {0, {{"signal", "height"}}}}, {"domain", {-0.5, lanes - 0.5}}};
  const Json size = {{"name", "size"}, {"range", {6, 300}}, {"domain", {0, longest > 0 ? Rounded(longest) : 1}}};
  spec["scales"] = Json::array({x, y, size, ColourScale(picture.devices)});
  const Json x_axis = {{"orient", "bottom"}, {"scale", "x"}, {"title", "start in the step, ms"}};
  spec["axes"] = Json::array({x_axis, LaneAxis(picture)});
  spec["legends"] = Json::array(
      {{{"fill", "colour"}, {"orient", "bottom"}, {"columns", Signal("narrow ? 3 : 8")}, {"symbolType", "circle"}}});
  spec["marks"] = PictureMarks();
  return Printed(spec);
}

}  // namespace emplace::experiments
