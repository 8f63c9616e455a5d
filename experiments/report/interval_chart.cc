// Implements IntervalChart of charts.h.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "experiments/report/charts.h"
#include "experiments/report/vega.h"

namespace emplace::experiments {
namespace {

using vega::Constant;
using vega::Field;
using vega::Json;
using vega::Rounded;
using vega::Signal;

constexpr double kRowHeight = 26;
constexpr const char* kColour = "#4477aa";

// The range of the axis. Agents far slower than one device are cut off, as they would compress all others.
std::pair<double, double> Domain(const std::vector<IntervalRow>& rows, const IntervalChartOptions& options) {
  double low = 0;
  double high = 1;
  double best = rows.empty() ? 0 : rows[0].mean;
  for (const IntervalRow& row : rows) {
    low = std::min(low, row.low);
    high = std::max(high, row.high);
    best = std::max(best, row.mean);
  }
  for (const ChartLine& line : options.lines) high = std::max(high, line.at);
  low = std::max(low, std::min(-1.5 * high, 1.5 * best));
  const double room = 0.03 * (high - low);
  return {Rounded(low - room), Rounded(high + room)};
}

Json Rows(const std::vector<IntervalRow>& rows, double leftmost) {
  Json json = Json::array();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const IntervalRow& row = rows[i];
    const bool is_cut = row.mean < leftmost;
    json.push_back({{"row", i},
                    {"label", row.label},
                    {"note", row.note},
                    {"text", row.text},
                    {"mean", Rounded(std::max(row.mean, leftmost))},
                    {"low", Rounded(std::max(row.low, leftmost))},
                    {"high", Rounded(std::max(row.high, leftmost))},
                    {"shape", is_cut ? "triangle-left" : "circle"},
                    {"fill", row.is_hollow ? "Canvas" : kColour}});
  }
  return json;
}

Json RowAxis(const char* side, const std::string& text, std::size_t rows) {
  Json values = Json::array();
  for (std::size_t i = 0; i < rows; ++i) values.push_back(i);
  return {{"orient", side},
          {"scale", "y"},
          {"domain", false},
          {"ticks", false},
          {"labelPadding", 8},
          {"labelFontSize", 12},
          {"labelLimit", Signal("narrow ? 120 : 300")},
          {"values", values},
          {"encode", {{"labels", {{"update", {{"text", Signal(text)}}}}}}}};
}

Json Middle() { return {{"scale", "y"}, {"field", "row"}, {"band", 0.5}}; }

Json LineMarks() {
  const Json rule = {{"type", "rule"},
                     {"name", "line"},
                     {"from", {{"data", "lines"}}},
                     {"encode",
                      {{"update",
                        {{"x", Field("x", "at")},
                         {"y", Constant(0)},
                         {"y2", Signal("height")},
                         {"stroke", Constant("currentColor")},
                         {"strokeDash", Constant({4, 3})},
                         {"strokeOpacity", Constant(0.7)}}}}}};
  const Json name = {{"type", "text"},
                     {"name", "name"},
                     {"from", {{"data", "lines"}}},
                     {"encode",
                      {{"update",
                        {{"x", Field("x", "at")},
                         {"y", Constant(-6)},
                         {"text", {{"field", "name"}}},
                         {"align", {{"field", "align"}}},
                         {"fontSize", Constant(11)},
                         {"fill", Constant("currentColor")}}}}}};
  return Json::array({rule, name});
}

Json RowMarks() {
  const Json interval = {{"type", "rule"},
                         {"name", "interval"},
                         {"from", {{"data", "agents"}}},
                         {"encode",
                          {{"update",
                            {{"x", Field("x", "low")},
                             {"x2", Field("x", "high")},
                             {"y", Middle()},
                             {"stroke", Constant(kColour)},
                             {"strokeWidth", Constant(3)},
                             {"strokeOpacity", Constant(0.55)},
                             {"strokeCap", Constant("round")}}}}}};
  const Json mean = {{"type", "symbol"},
                     {"name", "mean"},
                     {"from", {{"data", "agents"}}},
                     {"encode",
                      {{"update",
                        {{"x", Field("x", "mean")},
                         {"y", Middle()},
                         {"shape", {{"field", "shape"}}},
                         {"size", Constant(80)},
                         {"fill", {{"field", "fill"}}},
                         {"stroke", Constant(kColour)},
                         {"strokeWidth", Constant(2)},
                         {"tooltip", Signal("datum.label + datum.note + ': ' + datum.text")}}}}}};
  return Json::array({interval, mean});
}

}  // namespace

bool HasCutRow(const std::vector<IntervalRow>& rows, const IntervalChartOptions& options) {
  const double leftmost = Domain(rows, options).first;
  return std::any_of(rows.begin(), rows.end(), [leftmost](const IntervalRow& row) { return row.mean < leftmost; });
}

std::string IntervalChart(const std::vector<IntervalRow>& rows, const IntervalChartOptions& options) {
  const auto [low, high] = Domain(rows, options);
  Json lines = Json::array();
  for (const ChartLine& line : options.lines) {
    // In the right half, names are aligned to the right, so that they are not cut off.
    const bool is_right = line.at > (low + high) / 2;
    lines.push_back({{"name", line.name}, {"at", Rounded(line.at)}, {"align", is_right ? "right" : "left"}});
  }
  Json spec = vega::FitWidth(vega::Base(kRowHeight * static_cast<double>(rows.size())));
  spec["padding"] = {{"top", 22}, {"left", 5}, {"right", 5}, {"bottom", 5}};
  spec["data"] =
      Json::array({{{"name", "agents"}, {"values", Rows(rows, low)}}, {{"name", "lines"}, {"values", lines}}});
  Json order = Json::array();
  for (std::size_t i = 0; i < rows.size(); ++i) order.push_back(i);
  const Json x = {{"name", "x"}, {"range", "width"}, {"zero", false}, {"domain", {low, high}}};
  const Json y = {{"name", "y"}, {"type", "band"}, {"range", {0, Signal("height")}}, {"domain", order}};
  spec["scales"] = Json::array({x, y});
  const Json x_axis = {{"orient", "bottom"},
                       {"scale", "x"},
                       {"title", options.x_title},
                       {"grid", true},
                       {"tickCount", Signal("narrow ? 3 : 8")}};
  spec["axes"] = Json::array(
      {x_axis,
       RowAxis("left", "data('agents')[datum.value].label + (narrow ? '' : data('agents')[datum.value].note)",
               rows.size()),
       RowAxis("right", "narrow ? '' : data('agents')[datum.value].text", rows.size())});
  spec["marks"] = LineMarks();
  for (const Json& mark : RowMarks()) spec["marks"].push_back(mark);
  return vega::Printed(spec);
}

}  // namespace emplace::experiments
