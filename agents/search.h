#ifndef EMPLACE_AGENTS_SEARCH_H_
#define EMPLACE_AGENTS_SEARCH_H_

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agents/agent.h"
#include "agents/checkpoint.h"
#include "agents/settings.h"
#include "sim/base/options.h"
#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/evaluator.h"
#include "sim/graph.h"
#include "sim/grouping.h"
#include "sim/placement.h"
#include "sim/schedule/schedule_evaluator.h"

namespace emplace {
class Simulator;
}

namespace emplace::agents {

// A graph to place.
struct SearchProblem {
  Graph graph;
  Cluster cluster;
  CostTable costs;
  std::string name = {};                        // name in results; "": that of the graph
  std::string grouping = {};                    // a grouper's name; "": the agent's default
  std::optional<Grouping> given_grouping = {};  // instead of a grouper's
  std::size_t max_groups = kDefaultGroups;
  // Placements of ops, as SearchSettings::start and ::incumbent say; none: none is given, or none that fits is found.
  std::optional<Placement> start = {};
  std::optional<Placement> incumbent = {};

  // `groups` as SearchSettings::groups, of a graph that is no family's member.
  void SetGrouping(const std::string& grouper, std::size_t groups) {
    grouping = grouper;
    max_groups = groups != 0 ? groups : kDefaultGroups;
  }
};

// Measures placements of the first graph between evaluations, and corrects the costs that the search goes on with.
// Every `every` evaluations the search has its best placement measured, after a first measurement of a random
// placement, which runs ops on devices and sends tensors over links that the best may not use, and before a last one of
// the best. From then on the agent sees corrected times, in outcomes and in the observation. After a correction
// that changes them, an agent that keeps step times (AgentEntry::keeps_times) begins again at the best placement, with
// the evaluations that are left; others go on as they are.
class SearchValidation : public SearchPart {
 public:
  virtual std::size_t every() const = 0;
  // Measures a placement of ops after so many evaluations. Returns whether step times that were answered before count
  // no longer. All that follows is invalidated.
  virtual bool Measure(const Placement& placement, std::size_t evaluations) = 0;
  // Answers as corrected.
  virtual const Evaluator& evaluator() const = 0;
  virtual const Cluster& cluster() const = 0;
  virtual const CostTable& costs() const = 0;
  // The distinct placements that were measured and fit, the best one by the evaluator's answers first.
  virtual std::vector<Placement> Measured() const = 0;
};

// One search: settings, and what they apply to.
// With a schedule, the graph is one micro-batch. Agents that search then start from PipelineStart and place
// PipelineGroups, unless a start or a grouping is given. Where each device runs one stage of a pipeline
// (ObjectiveEntry::is_pipeline), a CPU is not a stage beside accelerators unless the user asks for it. Any of these
// does: the cluster keeps one by name (Cluster::names_cpu); the agent is one for CPUs, or its options say so
// (use_cpus=true, accelerators_only=false, the name of a CPU as `device`); the objective asks for them; the start or
// the incumbent has an op on a CPU that could be on an accelerator.
struct SearchSpec : SearchSettings {
  SearchProblem problem;
  std::vector<SearchProblem> also = {};      // further graphs on which the agent learns together with the first
  std::vector<SearchProblem> transfer = {};  // graphs to which the policy is applied at the end
  // The schedule named by `schedule`, read by LoadSchedule; none: a step has one batch.
  std::optional<ScheduleChoice> pipeline = {};
  // A placement of the first graph's ops to start from, instead of `start`; agents that do not search ignore it.
  std::optional<Placement> given_start = {};
  bool names_are_resolved = false;  // WithNamedPlacements has found what `start` and `incumbent` stand for
  // Asked after each proposal was evaluated; true ends the search with what it has found. Null: never.
  std::function<bool()> stop = {};
  // Asked between two proposals, where a checkpoint can be saved; true saves it and throws SearchInterrupted. Null, or
  // without a checkpoint: never.
  std::function<bool()> interrupt = {};
  std::string checkpoint = {};  // a file to resume from, saved periodically; "": none
  // The checkpoint of the search's end is synced to the disk only if it comes at least this many seconds after the last
  // one. Syncing takes as long as a short search; a crash of the machine may then cost that search.
  double sync_end_after_seconds = 0;
  std::string policy = {};  // a file with a policy to load at the start; "": none
  // Evaluates the placements of `problem`; null: a simulator with `engine`.
  const Evaluator* evaluator = nullptr;
  SearchPart* evaluator_state = nullptr;  // state of `evaluator`, if its results depend on earlier placements
  // Instead of `evaluator` and `evaluator_state`; the result is the best of its measured placements. Null: none.
  SearchValidation* validation = nullptr;
  // A simulator of `problem` with `engine` and peak memory, if the caller has one. It computes the result of the best
  // placement. The search also uses it, unless the agent needs start times or no device has a memory limit. Without a
  // limit the search omits peak memory, about half of the simulation time. Null: the search builds its own.
  const Simulator* simulator = nullptr;
};

// The checkpoint is saved; the same search resumes from it.
struct SearchInterrupted : std::exception {
  const char* what() const noexcept override { return "the search was interrupted"; }
};

// Whether a search with these settings loads LibTorch: for the agent's networks, or to compute gradients.
bool NeedsLibTorch(const SearchSettings& settings);

struct SearchProgress {
  std::size_t evaluations = 0;  // total over all graphs
  std::size_t budget = 0;
  std::optional<double> best_micros;  // best step time on the first graph, among placements that fit
};

// The result of a search on one graph.
struct GraphResult {
  std::size_t evaluations = 0;
  std::size_t num_groups = 0;
  std::size_t fitting = 0;               // evaluations whose placement fits
  std::optional<std::size_t> saturated;  // evaluations whose reward was at its floor; none: the reward has no floor
  std::optional<double> invalid_micros;  // InvalidMicros of the reward
  std::optional<Placement> best;         // op-level, the fastest that fits; ties go to the first found
  StepResult best_result;
  // Branch and bound found that no placement that fits is faster than `best`: multilevel_search on small graphs.
  bool is_proved = false;
  std::optional<double> smallest_overflow_bytes;  // if nothing fits: the smallest overflow, summed over devices
  double single_device_micros = 0;                // simulated, of everything on the first accelerator, fitting or not
  // The least step time of everything on one accelerator, among those where it fits; none: it fits on none.
  std::optional<double> one_device_micros;
  double start_micros = 0;  // step time of the incumbent, or the first placement evaluated
  // The step time of the last placement, or for an applied policy of the episode's end; none if it does not fit.
  std::optional<double> final_micros;
  // Evaluations so far and the best step time in us, at each improvement; the last pair is the end.
  std::vector<std::pair<std::size_t, double>> trace;
  std::vector<EpisodeRecord> episodes;  // episodes of learning agents, thinned (EpisodeHistory)
  std::size_t num_episodes = 0;         // those without a record included

  // Whether everything on one accelerator fits, and takes less than the best that was found, or nothing was found.
  bool WorseThanOneDevice() const {
    return one_device_micros && (!best || best_result.step_time_micros > *one_device_micros);
  }
};

struct SearchResult : GraphResult {   // the result for the first graph, and:
  std::vector<GraphResult> also;      // results for spec.also
  std::vector<GraphResult> transfer;  // results for spec.transfer
  std::string note;                   // Agent::Note, or why the agent was stopped
  bool was_stopped = false;           // the agent did not respond; the result is the best of its proposals until then
  std::string policy;                 // output of Agent::SavePolicy; "" if the agent has no policy
  SearchTimes times;                  // measured, summed over all runs of the search
  // MicrosOfSingleOps, where the caller asked for it.
  std::optional<double> single_ops_micros;
};

// What to tell users of a search whose rewards misled the agent, in a sentence: most were at their floor, or placements
// that do not fit counted as faster than the best that fits. "" if there is nothing.
std::string RewardWarning(const GraphResult& result);

// Runs propose, evaluate and observe until the budget is spent or the agent is finished. The same spec gives the same
// result except for the times. On torch_device cuda, sums may also round differently from run to run. Throws InputError
// on an unknown agent, option, grouping, reward or engine. Throws UnusableCheckpoint if there is a checkpoint that it
// cannot resume from, and SearchInterrupted if spec.interrupt says so. Requires: placements by name are resolved
// (named_placement.h).
SearchResult RunSearch(const SearchSpec& spec, const std::function<void(const SearchProgress&)>& on_progress = {});

// Whether a grouping moves whole modules, as frameworks do: `modules` or `layers`.
bool MovesModules(const SearchSettings& settings);
// What moving single ops would give: the objective of the best placement that multilevel_search finds from a search's
// result in as many evaluations. Nothing where the search moved no modules, found nothing, or evaluated one placement
// only, which leaves no evaluations to move ops in, or with validation, which changes what times mean. Throws
// SearchInterrupted if spec.interrupt says so.
std::optional<double> MicrosOfSingleOps(const SearchSpec& spec, const SearchResult& result,
                                        const std::function<void(const SearchProgress&)>& on_progress = {});

// The grouping that a search with this agent uses. With a start, the groups of the agent's default are split where the
// start has their ops on several devices: else it could not be placed.
Grouping MakeGrouping(const SearchProblem& problem, const AgentEntry& agent,
                      const std::optional<Placement>& start = std::nullopt);
// Maximum number of evaluations of a search on a graph of `num_groups` groups.
std::size_t EvaluationBudget(const SearchSettings& settings, const AgentEntry& agent, std::size_t num_groups);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_SEARCH_H_
