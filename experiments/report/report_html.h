#ifndef EMPLACE_EXPERIMENTS_REPORT_REPORT_HTML_H_
#define EMPLACE_EXPERIMENTS_REPORT_REPORT_HTML_H_

#include <iosfwd>
#include <string>
#include <string_view>

#include "experiments/report/report_document.h"

namespace emplace::experiments {

// One page with everything in it: tables that need no script, charts drawn by Vega, a list of contents at the end. It
// loads nothing and evaluates no text as a program; its Content-Security-Policy forbids both. Once all charts are
// drawn, the root element's data-charts is their number; what went wrong meanwhile stands in data-errors.
void WriteHtml(std::ostream& out, const ReportDocument& document);

// Text for between tags and in attributes.
std::string HtmlText(std::string_view text);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_REPORT_HTML_H_
