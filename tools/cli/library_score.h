#ifndef EMPLACE_TOOLS_CLI_LIBRARY_SCORE_H_
#define EMPLACE_TOOLS_CLI_LIBRARY_SCORE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace emplace::tools {

struct ScoreOptions {
  std::string agent;
  std::vector<std::string> settings;
  std::string label;  // "": the agent and its settings
  std::vector<std::string> tiers;
  std::vector<std::string> instances;  // empty: all of the tiers
  std::vector<std::uint64_t> budgets = {10, 100, 1000};
  double seconds = 0;  // 0: no search by the clock
  std::uint64_t seed = 1;
  std::size_t jobs = 0;  // 0: one for each core
  std::string output;    // a folder
};

// A folder's name for a searcher: letters, digits and a few others.
std::string ScoreFolder(std::string label);

// Runs the agent on each instance, in a process of its own. The folder gets a page that shows all searchers in it, and
// a folder of the searcher: scores.json, times.json, and what each instance gave, which is not run again. Returns the
// exit status; throws InputError.
int RunScore(const ScoreOptions& options);

}  // namespace emplace::tools

#endif  // EMPLACE_TOOLS_CLI_LIBRARY_SCORE_H_
