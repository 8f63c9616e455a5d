#include "experiments/report/vega.h"

#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <utility>

namespace emplace::experiments::vega {
namespace {

constexpr double kWidth = 760;  // default; the page changes it

// Qualitative colours that colour-blind readers can also distinguish, on white and on black. Source: Paul Tol, "Colour
// Schemes", SRON/EPS/TN/09-002, the schemes bright and light.
const Json& Colours() {
  static const Json colours = {"#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377",
                               "#bbbbbb", "#ee8866", "#44bb99", "#99ddff", "#aaaa00", "#ffaabb"};
  return colours;
}

}  // namespace

Json Base(double height) {
  const Json axis = {{"labelColor", "currentColor"}, {"titleColor", "currentColor"}, {"domainColor", "currentColor"},
                     {"tickColor", "currentColor"},  {"gridColor", "currentColor"},  {"gridOpacity", 0.12},
                     {"labelFontSize", 11},          {"titleFontSize", 12}};
  const Json legend = {{"labelColor", "currentColor"}, {"titleColor", "currentColor"}, {"labelLimit", 260}};
  return {{"$schema", "https://vega.github.io/schema/vega/v5.json"},
          {"width", kWidth},
          {"height", height},
          {"padding", 5},
          {"autosize", "pad"},
          {"config", {{"axis", axis}, {"legend", legend}}},
          {"signals", Json::array({{{"name", "narrow"}, {"value", false}}})}};
}

Json FitWidth(Json spec) {
  spec["autosize"] = {{"type", "fit-x"}, {"contains", "padding"}};
  return spec;
}

Json ColourScale(const std::vector<std::string>& names) {
  return {{"name", "colour"}, {"type", "ordinal"}, {"domain", names}, {"range", Colours()}};
}

Json Field(const char* scale, const char* field) { return {{"scale", scale}, {"field", field}}; }
Json Constant(const Json& value) { return {{"value", value}}; }
Json Signal(const std::string& expression) { return {{"signal", expression}}; }

double Rounded(double value) { return std::strtod(fmt::format("{:.5g}", value).c_str(), nullptr); }

std::string Printed(const Json& spec) { return spec.dump(-1, ' ', false, Json::error_handler_t::replace); }

}  // namespace emplace::experiments::vega
