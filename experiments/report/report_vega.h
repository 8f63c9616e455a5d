#ifndef EMPLACE_EXPERIMENTS_REPORT_REPORT_VEGA_H_
#define EMPLACE_EXPERIMENTS_REPORT_REPORT_VEGA_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

// Parts of Vega specifications that charts share.
namespace emplace::experiments::vega {

using Json = nlohmann::ordered_json;

// A chart of so many pixels in height, without data: axes and legends in the page's text colour, and the signal
// "narrow", false until the page sets it.
Json Base(double height);
// The same with the width that the page gives it.
Json FitWidth(Json spec);
// One colour for each name, in their order: the scale "colour".
Json ColourScale(const std::vector<std::string>& names);

Json Field(const char* scale, const char* field);
Json Constant(const Json& value);
Json Signal(const std::string& expression);

// To five digits: what a page shows needs no more.
double Rounded(double value);
std::string Printed(const Json& spec);

}  // namespace emplace::experiments::vega

#endif  // EMPLACE_EXPERIMENTS_REPORT_REPORT_VEGA_H_
