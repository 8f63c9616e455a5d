#ifndef EMPLACE_TOOLS_RUNS_FOLDER_H_
#define EMPLACE_TOOLS_RUNS_FOLDER_H_

#include <string>
#include <vector>

namespace emplace::tools {

// The experiments' folders with a plan in a folder of runs, which may be one of them; absolute, by name. Throws
// InputError if there is none.
std::vector<std::string> PlannedFolders(const std::string& runs);

}  // namespace emplace::tools

#endif  // EMPLACE_TOOLS_RUNS_FOLDER_H_
