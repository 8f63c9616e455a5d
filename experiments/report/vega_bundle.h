#ifndef EMPLACE_EXPERIMENTS_REPORT_VEGA_BUNDLE_H_
#define EMPLACE_EXPERIMENTS_REPORT_VEGA_BUNDLE_H_

#include <string>
#include <string_view>

namespace emplace::experiments {

// Vega, the charting library, as one script for a page, compiled into the program from Debian's libjs-vega. The script
// defines `emplaceVega` with parse, View, and expressionInterpreter, which evaluates expressions without `eval`, so
// that a page may forbid that. It loads nothing. Source: https://vega.github.io/vega, BSD-3-Clause.
//
// The package's files cannot follow one another in a page as they are: each would replace the global object that the
// one before left. They are given a module system of a few lines instead.
std::string VegaScript();

// Who wrote it and under which licences, as the package says; a page that holds the script must hold this too.
std::string_view VegaLicence();

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_VEGA_BUNDLE_H_
