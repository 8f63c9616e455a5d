#include "experiments/run/runs_folder.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "experiments/run/plan_file.h"
#include "sim/base/check.h"

namespace emplace::experiments {

namespace fs = std::filesystem;

std::vector<std::string> PlannedFolders(const std::string& runs) {
  if (!fs::exists(runs)) throw InputError(runs, "there is no such folder");
  if (!fs::is_directory(runs)) throw InputError(runs, "is not a folder (a folder that `emplace sweep` wrote)");
  fs::path path = fs::absolute(runs).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  if (HasPlan(path.string())) return {path.string()};
  std::vector<std::string> folders;
  std::error_code error;
  for (fs::directory_iterator entry(path, error), end; !error && entry != end; entry.increment(error)) {
    if (HasPlan(entry->path().string())) folders.push_back(entry->path().string());
  }
  if (error) throw InputError(runs, "cannot be read (" + error.message() + ")");
  if (folders.empty()) {
    throw InputError(runs,
                     "holds no planned sweep (a folder that `emplace sweep` or `emplace submit` wrote: it has "
                     "plan.jsonl)");
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

}  // namespace emplace::experiments
