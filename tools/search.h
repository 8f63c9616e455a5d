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

// The options of a search: shared by place and compare.
struct SearchOptions {
  std::string grouping;  // "": what the agent wants
  std::size_t max_groups = 256;
  std::optional<std::size_t> evaluations;
  std::string reward;  // "": what the agent wants
  std::uint64_t seed = 1;
  std::string torch_device = "cpu";
  std::size_t threads = 0;  // 0: one for each core
};
void AddSearchOptions(CLI::App& app, SearchOptions* options);

// The file that --grouping names; "" if it names a grouper, or nothing.
std::string GroupingFile(const SearchOptions& options);

// The search that the options ask for, its agent still to be named.
agents::SearchSpec MakeSearchSpec(const ProblemOptions& problem, const SearchOptions& search, const Graph& graph,
                                  const Cluster& cluster, const CostTable& costs);

}  // namespace emplace::tools

#endif  // EMPLACE_TOOLS_SEARCH_H_
