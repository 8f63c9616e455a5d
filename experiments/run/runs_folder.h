#ifndef EMPLACE_EXPERIMENTS_RUN_RUNS_FOLDER_H_
#define EMPLACE_EXPERIMENTS_RUN_RUNS_FOLDER_H_

#include <string>
#include <vector>

namespace emplace::experiments {

// The experiments' folders with a plan in a folder of runs, which may be one of them; absolute, by name. Throws
// InputError if there is none.
std::vector<std::string> PlannedFolders(const std::string& runs);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_RUN_RUNS_FOLDER_H_
