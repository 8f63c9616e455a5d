#ifndef EMPLACE_AGENTS_OBJECTIVE_H_
#define EMPLACE_AGENTS_OBJECTIVE_H_

#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "agents/bounds/lower_bound.h"
#include "agents/settings.h"
#include "agents/throughput/stage_costs.h"
#include "sim/base/options.h"
#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/evaluator.h"
#include "sim/formats/result_json.h"
#include "sim/graph.h"
#include "sim/grouping.h"
#include "sim/placement.h"
#include "sim/simulator.h"

namespace emplace::agents {

// What a search makes small on one graph, of placements that fit. Results hold its value, in us, where they say step
// time, and rewards are computed from it.
class Objective {
 public:
  virtual ~Objective() = default;

  // Answers with the value of a placement.
  virtual const Evaluator& evaluator() const = 0;
  // The same by simulation, where `evaluator` measures.
  virtual const Evaluator& simulated() const { return evaluator(); }
  // The simulated result with peak memory, which `simulated` may leave out.
  virtual StepResult RunWithPeakMemory(const Placement& placement) const { return simulated().Run(placement); }
  // `result` is of RunWithPeakMemory. The lower bound is a simple one.
  virtual StepReport Report(const Placement& placement, const StepResult& result) const = 0;
  // Where a search begins unless the user says so; none: anywhere. With `finer` groups, groups may be split; `stop`
  // ends what takes long.
  virtual std::optional<Placement> Start(const Grouping& /*grouping*/, const std::optional<Grouping>& /*finer*/,
                                         const std::function<bool()>& /*stop*/) const {
    return std::nullopt;
  }
  // The loads of devices, where the value is the largest of them; null: it is not.
  virtual const StageCosts* loads() const { return nullptr; }
};

// The problem of an objective. The references and the targets of the pointers must outlive it.
struct ObjectiveContext {
  const Graph& graph;
  const Cluster& cluster;
  const CostTable& costs;
  const SearchSettings& settings;
  const std::optional<ScheduleChoice>& schedule;
  // The simulation options of a search, with the engine and collectives of `settings`.
  bool peak_memory = true;
  bool start_times = false;
  const Simulator* simulator = nullptr;  // the caller's, with peak memory; null: there is none
  const Evaluator* evaluator = nullptr;  // evaluator on real devices; null: placements are simulated
};

// An objective by name.
struct ObjectiveEntry {
  std::string_view name;
  std::string_view summary;
  std::string_view source;
  std::string_view metric;       // name of its value in tables
  std::string_view value_field;  // key in JSON
  std::string_view bound_field;
  bool is_listed = true;  // users choose it by name; else other settings do
  // Each device runs one stage of a pipeline, so a CPU is not one beside accelerators unless the user asks for it.
  bool is_pipeline = false;
  void (*read_options)(OptionReader& reader) = nullptr;  // checks and declares its own options
  // Whether settings ask for CPUs as stages. Null: they do not.
  bool (*asks_for_cpus)(const SearchSettings& settings) = nullptr;
  // Adds conflicts of the settings with this objective.
  void (*find_conflicts)(const SearchSettings& settings, std::vector<SettingConflict>* conflicts) = nullptr;
  // A bound on the value of every placement; null: the one of a report is the best that is known.
  LowerBound (*bound)(const ObjectiveContext& context) = nullptr;
  // Throws InputError on an unknown schedule, or a cluster that the engine does not support.
  std::unique_ptr<const Objective> (*make)(const ObjectiveContext& context);
  void (*write)(std::ostream& out, const StepReport& report);  // emplace.result
  void (*print)(std::ostream& out, const StepReport& report);  // writes the report for the user
};
std::span<const ObjectiveEntry> AllObjectives();  // those that are not listed come last
std::span<const ObjectiveEntry> ListedObjectives();

// The row of NAME, or of NAME:KEY=VALUE,KEY=VALUE with the objective's own options; "" is step_time. Throws InputError.
const ObjectiveEntry& FindObjective(std::string_view text);
// The row that the settings choose; with `on_devices`, placements are measured.
const ObjectiveEntry& ObjectiveOf(const SearchSettings& settings, bool on_devices = false);
// One objective of ObjectiveOf.
std::unique_ptr<const Objective> MakeObjective(const ObjectiveContext& context);

// Gives the report the objective's bound, if it has one with an argument.
void SetLowerBound(const ObjectiveContext& context, StepReport* report);

// The options of stage costs, as dp_contiguous has them too.
void ReadStageCostOptions(OptionReader& reader, StageCostOptions* options);
// The same options, from an objective's text.
StageCostOptions StageCostOptionsOf(std::string_view objective);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_OBJECTIVE_H_
