#ifndef EMPLACE_TOOLS_CLI_LIBRARY_PLANS_H_
#define EMPLACE_TOOLS_CLI_LIBRARY_PLANS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace emplace::tools {

// The parts of `emplace library` for the tier `plans`, whose instances are cells with measured answers. `data` is the
// folder with their tables; "": that of EMPLACE_REFERENCE_DATA. All return the exit status and throw InputError.

struct PlanTierOptions {
  std::string data;
  std::vector<std::string> planners;
  std::vector<std::string> cells;  // empty: all
  std::size_t queries = 10;
  double timeout = 60;  // seconds
  std::uint64_t seed = 1;
  bool json = false;
  std::string output;  // a folder; "": none
};

int ListPlanCells(const std::string& data, bool json);
int ShowPlanCell(const std::string& data, const std::string& name, bool json);
// Scores planners one after another. With an output folder, the cells of a run that was interrupted are not run again.
int ScorePlanners(const PlanTierOptions& options);

}  // namespace emplace::tools

#endif  // EMPLACE_TOOLS_CLI_LIBRARY_PLANS_H_
