#ifndef EMPLACE_EXPERIMENTS_VERSION_H_
#define EMPLACE_EXPERIMENTS_VERSION_H_

#include <string_view>

namespace emplace::experiments {

// The source version of this program, recorded in results.
std::string_view Version();  // "0.1.0"
std::string_view
Revision();  // git revision: 40 hex digits, with "-dirty" appended if files differed; "unknown" without git

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_VERSION_H_
