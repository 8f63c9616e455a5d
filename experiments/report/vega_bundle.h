#ifndef EMPLACE_EXPERIMENTS_REPORT_VEGA_BUNDLE_H_
#define EMPLACE_EXPERIMENTS_REPORT_VEGA_BUNDLE_H_

#include <string>
#include <string_view>

namespace emplace::experiments {

// Vega, the charting library, as one script for a page, compiled into the program from Debian's libjs-vega. The script
// defines `emplaceVega` with parse, View, and expressionInterpreter. The interpreter evaluates expressions without
// `eval`, so a page may forbid `eval`. The script loads nothing. Source: https://vega.github.io/vega, BSD-3-Clause.
//
// The package's files cannot be concatenated in a page: each would replace the global object of the previous one. They
// are wrapped in a minimal module system instead.
std::string VegaScript();

// Authors and licences according to the package. A page that contains the script must also contain this text.
std::string_view VegaLicence();

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_VEGA_BUNDLE_H_
