#include "experiments/report/report_charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <set>

namespace emplace {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kWidth = 760;
constexpr std::size_t kMostLaneNames = 40;

// Qualitative colours that differ for colour-blind readers too, on white and on black. Source: Paul Tol, "Colour
// Schemes", SRON/EPS/TN/09-002, the schemes bright and light.
const Json& Colours() {
  static const Json colours = {"#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377",
                               "#bbbbbb", "#ee8866", "#44bb99", "#99ddff", "#aaaa00", "#ffaabb"};
  return colours;
}

// What the page shows needs five digits, not seventeen.
double Rounded(double value) { return std::strtod(fmt::format("{:.5g}", value).c_str(), nullptr); }

Json Field(const char* scale, const char* field) { return {{"scale", scale}, {"field", field}}; }
Json Constant(const Json& value) { return {{"value", value}}; }
Json Tooltip(const std::string& expression) { return {{"signal", expression}}; }

Json Base(double height) {
  return {{"$schema", "https://vega.github.io/schema/vega/v5.json"},
          {"width", kWidth},
          {"height", height},
          {"padding", 5},
          {"autosize", "pad"},
          {"config",
           {{"axis",
             {{"labelColor", "currentColor"},
              {"titleColor", "currentColor"},
              {"domainColor", "currentColor"},
              {"tickColor", "currentColor"},
              {"gridColor", "currentColor"},
              {"gridOpacity", 0.12},
              {"labelFontSize", 11},
              {"titleFontSize", 12}}},
            {"legend", {{"labelColor", "currentColor"}, {"titleColor", "currentColor"}, {"labelLimit", 260}}}}}};
}

Json ColourScale(const std::vector<std::string>& names) {
  return {{"name", "colour"}, {"type", "ordinal"}, {"domain", names}, {"range", Colours()}};
}

std::string Printed(const Json& spec) { return spec.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json CurveRows(const std::vector<Curve>& curves) {
  Json rows = Json::array();
  for (const Curve& curve : curves) {
    for (const CurvePoint& point : curve.points) {
      rows.push_back({{"agent", curve.label},
                      {"x", point.x},
                      {"mean", Rounded(point.mean)},
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
                      {{"enter",
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
                      {{"enter",
                        {{"x", Field("x", "x")},
                         {"y", Field("y", "mean")},
                         {"stroke", Field("colour", "agent")},
                         {"strokeWidth", Constant(2)},
                         {"tooltip", Tooltip(tooltip)}}}}}};
  return Json::array({{{"type", "group"},
                       {"from", {{"facet", {{"name", "series"}, {"data", "curves"}, {"groupby", "agent"}}}}},
                       {"marks", {band, line}}}});
}

// Devices side by side within a lane.
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
                           {{"enter",
                             {{"x", Field("x", "x")},
                              {"y", Field("y", "y")},
                              {"x2", Field("x", "x2")},
                              {"y2", Field("y", "y2")},
                              {"stroke", Constant("currentColor")},
                              {"strokeOpacity", Constant(0.25)},
                              {"strokeWidth", Constant(0.6)},
                              {"tooltip", Tooltip("format(datum.mib, '.3') + ' MiB'")}}}}}};
  const Json ops = {
      {"type", "symbol"},
      {"name", "op"},
      {"from", {{"data", "ops"}}},
      {"encode",
       {{"enter",
         {{"x", Field("x", "x")},
          {"y", Field("y", "y")},
          {"size", Field("size", "us")},
          {"fill", Field("colour", "device")},
          {"fillOpacity", Constant(0.8)},
          {"tooltip", Tooltip("datum.op + ' (' + datum.layer + ') on ' + datum.device + ', ' + format(datum.us, '.4') "
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

}  // namespace

std::string CurveChart(const std::vector<Curve>& curves, const CurveChartOptions& options) {
  Json shown = Json::array();
  double highest = 0;
  for (const Curve& curve : curves) {
    shown.push_back(curve.label);
    for (const CurvePoint& point : curve.points) highest = std::max(highest, point.high);
  }
  Json spec = Base(300);
  spec["data"] = Json::array({{{"name", "curves"}, {"values", CurveRows(curves)}}});
  Json x = {{"name", "x"},   {"type", options.log_x ? "log" : "linear"},      {"range", "width"}, {"nice", false},
            {"zero", false}, {"domain", {{"data", "curves"}, {"field", "x"}}}};
  if (options.log_x) x.erase("zero");
  const Json y = {{"name", "y"}, {"range", "height"}, {"nice", true}, {"domain", {0, highest > 0 ? highest : 1}}};
  spec["scales"] = Json::array({x, y, ColourScale(options.labels)});
  const Json x_axis = {{"orient", "bottom"}, {"scale", "x"}, {"title", options.x_title}, {"tickCount", 6}};
  const Json y_axis = {{"orient", "left"}, {"scale", "y"}, {"title", options.y_title}, {"grid", true}};
  spec["axes"] = Json::array({x_axis, y_axis});
  spec["legends"] = Json::array(
      {{{"fill", "colour"}, {"values", shown}, {"orient", "bottom"}, {"columns", 3}, {"symbolType", "square"}}});
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
  // Room around the points; from 0 where they are not all far from it.
  const double room = 0.05 * (most - least);
  const Json domain = {Rounded(least < most / 3 ? 0 : least - room), Rounded(most + room)};
  Json spec = Base(360);
  spec["width"] = 360;
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
  const Json equal = {{"type", "line"},
                      {"name", "equal"},
                      {"from", {{"data", "ends"}}},
                      {"encode",
                       {{"enter",
                         {{"x", Field("x", "at")},
                          {"y", Field("y", "at")},
                          {"stroke", Constant("currentColor")},
                          {"strokeOpacity", Constant(0.5)}}}}}};
  const Json symbols = {
      {"type", "symbol"},
      {"name", "point"},
      {"from", {{"data", "points"}}},
      {"encode",
       {{"enter",
         {{"x", Field("x", "x")},
          {"y", Field("y", "y")},
          {"size", Constant(40)},
          {"fill", Field("colour", "agent")},
          {"fillOpacity", Constant(0.8)},
          {"tooltip", Tooltip("datum.agent + ': measured ' + format(datum.x, '.4') + ' ms, simulated ' + "
                              "format(datum.y, '.4') + ' ms'")}}}}}};
  spec["marks"] = Json::array({equal, symbols});
  return Printed(spec);
}

std::string PictureChart(const PlacementPicture& picture) {
  double longest = 0;
  for (const auto& dot : picture.dots) longest = std::max(longest, dot.micros);
  const auto lanes = static_cast<double>(picture.lanes.size());
  Json spec = Base(std::clamp(lanes * 24, 160.0, 640.0));
  spec["data"] = Json::array({{{"name", "lanes"}, {"values", LaneRows(picture)}},
                              {{"name", "transfers"}, {"values", PictureLines(picture)}},
                              {{"name", "ops"}, {"values", PictureDots(picture)}}});
  const Json x = {{"name", "x"}, {"range", "width"}, {"domain", {0, Rounded(picture.step_time_micros / 1000)}}};
  const Json y = {{"name", "y"}, {"range", {0, {{"signal", "height"}}}}, {"domain", {-0.5, lanes - 0.5}}};
  const Json size = {{"name", "size"}, {"range", {6, 300}}, {"domain", {0, longest > 0 ? Rounded(longest) : 1}}};
  spec["scales"] = Json::array({x, y, size, ColourScale(picture.devices)});
  const Json x_axis = {{"orient", "bottom"}, {"scale", "x"}, {"title", "start in the step, ms"}};
  spec["axes"] = Json::array({x_axis, LaneAxis(picture)});
  spec["legends"] = Json::array({{{"fill", "colour"}, {"orient", "bottom"}, {"columns", 8}, {"symbolType", "circle"}}});
  spec["marks"] = PictureMarks();
  return Printed(spec);
}

}  // namespace emplace
