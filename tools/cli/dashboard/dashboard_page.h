#ifndef EMPLACE_TOOLS_CLI_DASHBOARD_DASHBOARD_PAGE_H_
#define EMPLACE_TOOLS_CLI_DASHBOARD_DASHBOARD_PAGE_H_

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace emplace::tools {

// Parts of the dashboard's pages. Texts are escaped here, unless they are said to be HTML.

// A whole page around the HTML of its main part. `live`: it is asked for again every two seconds.
std::string PageHtml(const std::string& title, const std::string& main_html, bool live);
std::string_view PageScript();
std::string_view PageStyle();

// "PAGE?experiment=..&trial=..".
std::string TrialAddress(std::string_view page, std::string_view experiment, std::string_view trial);
std::string LinkHtml(const std::string& address, const std::string& text);
// Cells are HTML; the first column is text, the others are numbers.
std::string TableHtml(const std::string& caption, const std::vector<std::string>& header,
                      const std::vector<std::vector<std::string>>& rows_html);
std::string LogHtml(const std::string& log);

// How a search went: (evaluations, best step time in us), ascending.
struct Curve {
  std::string name = {};
  std::vector<std::pair<double, double>> points = {};
};
// One picture of all, each in % of its first point, with a legend; "" if no curve has two points.
std::string CurvesHtml(const std::vector<Curve>& curves);

}  // namespace emplace::tools

#endif  // EMPLACE_TOOLS_CLI_DASHBOARD_DASHBOARD_PAGE_H_
