#ifndef EMPLACE_EXPERIMENTS_REPORT_VEGA_H_
#define EMPLACE_EXPERIMENTS_REPORT_VEGA_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

// Parts shared by the Vega specifications of charts.
namespace emplace::experiments::vega {

using Json = nlohmann::ordered_json;

// A chart without data, `height` pixels high. Axes and legends are in the page's text colour; the signal "narrow" is
// false until the page sets it.
Json Base(double height);
// Lets the page set the width of the chart.
Json FitWidth(Json spec);
// One colour for each name, in order: the scale "colour".
Json ColourScale(const std::vector<std::string>& names);

Json Field(const char* scale, const char* field);
Json Constant(const Json& value);
Json Signal(const std::string& expression);

// Rounds to five digits, enough for a page.
double Rounded(double value);
std::string Printed(const Json& spec);

}  // namespace emplace::experiments::vega

#endif  // EMPLACE_EXPERIMENTS_REPORT_VEGA_H_
