#ifndef EMPLACE_EXPERIMENTS_REPORT_HTML_H_
#define EMPLACE_EXPERIMENTS_REPORT_HTML_H_

#include <iosfwd>

#include "experiments/report/document.h"

namespace emplace::experiments {

// Writes one self-contained page: tables that need no script, charts drawn by Vega, a table of contents at the end. It
// loads nothing and evaluates no text as code; its Content-Security-Policy forbids both. After all charts are drawn,
// the root element's data-charts is their number. Errors are in data-errors.
void WriteHtml(std::ostream& out, const ReportDocument& document);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_HTML_H_
