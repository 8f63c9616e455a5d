#ifndef EMPLACE_TOOLS_CLI_SEARCH_H_
#define EMPLACE_TOOLS_CLI_SEARCH_H_

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "agents/search.h"
#include "sim/simulator.h"
#include "tools/cli/problem.h"
#include "tools/cli/schedule_option.h"

namespace emplace::tools {

// The search options that place and compare share.
struct SearchOptions {
  std::string grouping;  // "": the agent's default
  std::size_t max_groups = 256;
  std::optional<std::size_t> evaluations;
  std::string objective;  // "": step_time
  ScheduleOptions schedule;
  std::string reward;  // "": the agent's default
  std::string start;   // a placement file, or agents::kBestPlacement; "": none
  std::uint64_t seed = 1;
  std::string torch_device = "cpu";
  std::size_t threads = 0;  // 0: one per core
  double seconds = 0;       // 0: no limit
};
void AddSearchOptions(CLI::App& app, SearchOptions* options);
void AddObjectiveOptions(CLI::App& app, SearchOptions* options);  // --objective, --schedule, --micro-batches

// The file of --grouping; "" if the option is the name of a grouper, or empty.
std::string GroupingFile(const SearchOptions& options);

// The file of --start; "" if there is none.
std::string StartFile(const SearchOptions& options);

// Throws InputError if there is a --start and the agent does not search.
void CheckTakesStart(const SearchOptions& options, const std::string& agent);

// The placement of --start, if there is one. Throws InputError on a file that holds none which can run, and if no agent
// that evaluates nothing finds one that fits.
std::optional<Placement> FindStart(const SearchOptions& options, const Graph& graph, const Cluster& cluster,
                                   const CostTable& costs, const Simulator& simulator);

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

// Refuses what does not go together: an unknown objective, and a schedule with throughput, whose loads no schedule
// changes, with another engine, or with a timeline that is a picture.
void CheckObjective(const SearchOptions& options, const ProblemOptions& problem, const std::string& timeline);

// What answers instead of the simulator; null if the objective is the time of a step of one batch.
std::unique_ptr<const Evaluator> OtherEvaluator(const ProblemOptions& problem, const SearchOptions& options,
                                                const Graph& graph, const Cluster& cluster, const CostTable& costs);

// What the objective says of a placement: the simulator's result, or with --objective throughput the loads.
StepReport ReportOf(const ProblemOptions& problem, const SearchOptions& search, const Graph& graph,
                    const Cluster& cluster, const CostTable& costs, const Placement& placement,
                    const StepResult& result);

// The search described by the options, without the agent's name.
agents::SearchSpec MakeSearchSpec(const ProblemOptions& problem, const SearchOptions& search, const Graph& graph,
                                  const Cluster& cluster, const CostTable& costs);

}  // namespace emplace::tools

#endif  // EMPLACE_TOOLS_CLI_SEARCH_H_
