#ifndef EMPLACE_TOOLS_CLI_DASHBOARD_DASHBOARD_PAGE_H_
#define EMPLACE_TOOLS_CLI_DASHBOARD_DASHBOARD_PAGE_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/report/learning_curves.h"

namespace emplace::tools {

// Parts of the dashboard's pages. Texts are escaped here, unless they are said to be HTML.

// A whole page around the HTML of its main part. `live`: it is asked for again every two seconds.
std::string PageHtml(const std::string& title, const std::string& main_html, bool live);
std::string_view PageScript();
std::string_view PageStyle();
std::string_view PageIcon();  // an SVG picture

// "PAGE?experiment=..&trial=..".
std::string TrialAddress(std::string_view page, std::string_view experiment, std::string_view trial);
// The address of the page with an experiment's pictures from the number `first` on.
std::string CurvesAddress(std::string_view experiment, std::size_t first);
std::string LinkHtml(const std::string& address, const std::string& text);
// Cells are HTML; the first column is text, the others are numbers. A table wider than the page scrolls in it.
std::string TableHtml(const std::string& caption, const std::vector<std::string>& header,
                      const std::vector<std::vector<std::string>>& rows_html);
std::string LogHtml(const std::string& log);

// Step times are shown in one unit.
struct TimeUnit {
  std::string_view name = {};
  double micros = 1;
};
// The unit in which the number has one to three digits before the point: us, ms or s.
TimeUnit UnitFor(double micros);

// A picture of step times (us) by evaluations: a line and a band for each curve, without a legend. A label has the
// colour of its position in `labels`. The axis ends at three times the shortest step, so that a slow start is cut off.
// "" if no curve has two points.
std::string CurvesSvg(const std::vector<experiments::Curve>& curves, const std::vector<std::string>& labels);
// The label of an agent behind a bar of its colour.
std::string LegendHtml(const std::string& label, const std::vector<std::string>& labels);

}  // namespace emplace::tools

#endif  // EMPLACE_TOOLS_CLI_DASHBOARD_DASHBOARD_PAGE_H_
