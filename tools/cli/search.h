#ifndef EMPLACE_TOOLS_CLI_SEARCH_H_
#define EMPLACE_TOOLS_CLI_SEARCH_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "agents/objective.h"
#include "agents/search.h"
#include "sim/base/progress.h"
#include "sim/simulator.h"
#include "tools/cli/problem.h"

namespace emplace::tools {

// The placement of --start, if there is one. Throws InputError on a file that holds none which can run, and if the
// agents that the name stands for find none that fits.
std::optional<Placement> FindStart(const ProblemOptions& problem, const std::optional<ScheduleChoice>& schedule,
                                   const Graph& graph, const Cluster& cluster, const CostTable& costs,
                                   const Simulator& simulator);

// Ends searches after some seconds, or on the first SIGINT (Ctrl-C) or SIGTERM (Slurm's); a second signal, at least 0.2
// s later, ends the program. One object at a time.
class SearchStop {
 public:
  explicit SearchStop(double seconds);  // 0: no limit
  ~SearchStop();
  SearchStop(const SearchStop&) = delete;
  SearchStop& operator=(const SearchStop&) = delete;

  void Start() { started_ = Clock::now(); }  // the seconds of one search
  bool Interrupted() const;
  int signal() const;         // 0: none
  std::string Cause() const;  // "Ctrl-C" or "SIGTERM". Requires: Interrupted().
  bool operator()() const;

 private:
  using Clock = std::chrono::steady_clock;
  double seconds_;
  Clock::time_point started_ = Clock::now();
};

// Everything on the accelerator where all ops together are fastest, as single_device places it.
Placement OnOneDevice(const Graph& graph, const Cluster& cluster, const CostTable& costs, const Simulator& simulator);

// About as many evaluations of the agent's batches as fit into the seconds, at least 10: the evaluator is timed on one
// placement.
std::size_t EvaluationsIn(double seconds, std::size_t threads, const agents::AgentEntry& agent,
                          const Evaluator& evaluator, const Placement& placement);

// Checks the settings.
void CheckProblem(const ProblemOptions& problem);

// How far a search is.
ProgressState ProgressOf(const agents::SearchProgress& progress);

// MicrosOfSingleOps, with its progress.
std::optional<double> SingleOpsMicros(const agents::SearchSpec& spec, const agents::SearchResult& result);
// A sentence about a step in which `modules` move whole, and one in which single ops move.
std::string SingleOpsText(std::string_view modules, double micros, double single_ops_micros);

// The objective that the settings choose. Throws InputError on a cluster that it does not support.
std::unique_ptr<const agents::Objective> MakeObjective(const ProblemOptions& problem,
                                                       const agents::ObjectiveContext& context);

// The search that the options describe, without its start.
agents::SearchSpec MakeSearchSpec(const ProblemOptions& problem, const std::optional<ScheduleChoice>& schedule,
                                  const Graph& graph, const Cluster& cluster, const CostTable& costs);

}  // namespace emplace::tools

#endif  // EMPLACE_TOOLS_CLI_SEARCH_H_
