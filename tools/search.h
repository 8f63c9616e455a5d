#ifndef EMPLACE_TOOLS_SEARCH_H_
#define EMPLACE_TOOLS_SEARCH_H_

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "agents/search.h"
#include "tools/problem.h"

namespace emplace::tools {

// The search options that place and compare share.
struct SearchOptions {
  std::string grouping;  // "": the agent's default
  std::size_t max_groups = 256;
  std::optional<std::size_t> evaluations;
  std::string reward;  // "": the agent's default
  std::uint64_t seed = 1;
  std::string torch_device = "cpu";
  std::size_t threads = 0;  // 0: one per core
};
void AddSearchOptions(CLI::App& app, SearchOptions* options);

// The file of --grouping; "" if the option is the name of a grouper, or empty.
std::string GroupingFile(const SearchOptions& options);

// The search described by the options, without the agent's name.
agents::SearchSpec MakeSearchSpec(const ProblemOptions& problem, const SearchOptions& search, const Graph& graph,
                                  const Cluster& cluster, const CostTable& costs);

}  // namespace emplace::tools

#endif  // EMPLACE_TOOLS_SEARCH_H_
