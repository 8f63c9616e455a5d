#ifndef EMPLACE_EXPERIMENTS_VERSION_H_
#define EMPLACE_EXPERIMENTS_VERSION_H_

#include <string_view>

namespace emplace::experiments {

// What this program was built from: results say so.
std::string_view Version();   // "0.1.0"
std::string_view Revision();  // of git: 40 hex digits, "-dirty" behind them where files differed; "unknown" without git

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_VERSION_H_
