#include "agents/objective.h"

#include <fmt/format.h>

#include <string>
#include <utility>

#include "agents/throughput/load_report.h"
#include "agents/throughput/max_load_bound.h"
#include "agents/throughput/max_load_evaluator.h"
#include "agents/throughput/pipeline_start.h"
#include "sim/base/check.h"
#include "sim/base/registry.h"
#include "sim/formats/report_text.h"
#include "sim/schedule/schedule_evaluator.h"

namespace emplace::agents {
namespace {

// The time of a step of one batch.
class StepTime : public Objective {
 public:
  explicit StepTime(const ObjectiveContext& context) : context_(context), given_(context.simulator) {
    SimOptions options{.engine = context.settings.engine,
                       .peak_memory = context.peak_memory,
                       .start_times = context.start_times,
                       .collectives = context.settings.collectives};
    if (given_ != nullptr) {
      EMPLACE_CHECK_EQ(given_->options().engine, options.engine);
      EMPLACE_CHECK_EQ(given_->options().collectives, options.collectives);
      if (given_->options() == options) return;
    }
    own_.emplace(context.graph, context.cluster, context.costs, std::move(options));
  }

  const Evaluator& evaluator() const override { return simulator(); }
  const Evaluator& simulated() const override { return simulator(); }
  // A second simulator is needed only if the search's own omits peak memory and the caller passed none.
  StepResult RunWithPeakMemory(const Placement& placement) const override {
    if (given_ != nullptr) return given_->Run(placement);
    SimOptions options = simulator().options();
    if (options.peak_memory) return simulator().Run(placement);
    options.peak_memory = true;
    return Simulator(context_.graph, context_.cluster, context_.costs, options).Run(placement);
  }
  StepReport Report(const Placement& placement, const StepResult& result) const override {
    return MakeStepReport(context_.graph, context_.cluster, context_.costs, placement, context_.settings.engine,
                          result);
  }

 private:
  const Simulator& simulator() const { return own_ ? *own_ : *given_; }

  ObjectiveContext context_;
  const Simulator* given_;
  std::optional<Simulator> own_;  // none: the given one is used
};

// The time of a step that real devices measure; the report, which needs what only a simulator knows, is simulated.
class MeasuredStepTime : public StepTime {
 public:
  explicit MeasuredStepTime(const ObjectiveContext& context) : StepTime(context), devices_(*context.evaluator) {}
  const Evaluator& evaluator() const override { return devices_; }

 private:
  const Evaluator& devices_;
};

// The time of a step with a schedule of micro-batches.
class ScheduledStepTime : public Objective {
 public:
  explicit ScheduledStepTime(const ObjectiveContext& context)
      : graph_(context.graph),
        cluster_(context.cluster),
        costs_(context.costs),
        evaluator_(graph_, cluster_, costs_, *context.schedule) {}

  const Evaluator& evaluator() const override { return evaluator_; }
  StepReport Report(const Placement& placement, const StepResult& /*result*/) const override {
    const auto [schedule, pipeline, simulated] = evaluator_.Simulate(placement);
    return MakeScheduleReport(graph_, cluster_, costs_, placement, evaluator_.choice().name, schedule, pipeline,
                              simulated);
  }
  // Few placements are pipelines, so a search begins at one, and moves layers.
  std::optional<Placement> Start(const Grouping& grouping, const std::optional<Grouping>& finer,
                                 const std::function<bool()>& stop) const override {
    return PipelineStart(graph_, cluster_, costs_, evaluator_, grouping, finer, stop);
  }

 private:
  const Graph& graph_;
  const Cluster& cluster_;
  const CostTable& costs_;
  ScheduleEvaluator evaluator_;
};

// The largest load of a device.
class MaxLoadObjective : public Objective {
 public:
  explicit MaxLoadObjective(const ObjectiveContext& context)
      : graph_(context.graph),
        cluster_(context.cluster),
        costs_(context.costs),
        evaluator_(MakeStageCosts(graph_, cluster_, costs_, StageCostOptionsOf(context.settings.objective))) {}

  const Evaluator& evaluator() const override { return evaluator_; }
  StepReport Report(const Placement& placement, const StepResult& /*result*/) const override {
    return MakeLoadReport(graph_, cluster_, costs_, evaluator_.costs(), placement);
  }
  const StageCosts* loads() const override { return &evaluator_.costs(); }

 private:
  const Graph& graph_;
  const Cluster& cluster_;
  const CostTable& costs_;
  MaxLoadEvaluator evaluator_;
};

template <typename T>
std::unique_ptr<const Objective> Make(const ObjectiveContext& context) {
  return std::make_unique<T>(context);
}

LowerBound StepTimeBound(const ObjectiveContext& context) {
  return FindLowerBound(context.graph, context.cluster, context.costs, context.settings.engine);
}
LowerBound MaxLoadBound(const ObjectiveContext& context) {
  const StageCosts costs =
      MakeStageCosts(context.graph, context.cluster, context.costs, StageCostOptionsOf(context.settings.objective));
  return {.micros = MaxLoadBoundMicros(context.graph, costs), .method = {}};
}

// Settings of the simulator that an objective which has no use for them refuses.
void RefuseSimulation(const SearchSettings& settings, std::string_view what, std::vector<SettingConflict>* conflicts) {
  if (settings.collectives == "model") return;
  conflicts->push_back({"collectives", fmt::format("is {}, but {} time collectives by the model (model)",
                                                   Quoted(settings.collectives), what)});
}
// Settings that only simulated step times go with.
void RefuseHardware(const SearchSettings& settings, std::string_view setting, std::vector<SettingConflict>* conflicts) {
  if (settings.NeedsHardware()) {
    conflicts->push_back({std::string(setting), "is simulated, so not with rewards from hardware"});
  }
}

void FindStepTimeConflicts(const SearchSettings& settings, std::vector<SettingConflict>* conflicts) {
  if (!settings.HasSchedule()) return;
  RefuseSimulation(settings, "schedules", conflicts);
  RefuseHardware(settings, "schedule", conflicts);
}

void FindMaxLoadConflicts(const SearchSettings& settings, std::vector<SettingConflict>* conflicts) {
  if (settings.HasSchedule()) {
    conflicts->push_back({"schedule", "changes no load, so not with {objective} throughput ({objective} step_time)"});
  }
  if (settings.engine != "fifo") {
    conflicts->push_back(
        {"engine", fmt::format("is {}, but loads need no engine (leave it out)", Quoted(settings.engine))});
  }
  RefuseSimulation(settings, "loads", conflicts);
  RefuseHardware(settings, "objective", conflicts);
}

}  // namespace

void ReadStageCostOptions(OptionReader& reader, StageCostOptions* options) {
  std::string crossing = "direct";
  std::string memory = "all";
  reader.Read("crossing", &crossing, {"direct", "host"},
              "links that tensors cross: between accelerators, or between accelerators and CPUs");
  reader.Read("memory", &memory, {"all", "persistent", "none"},
              "bytes of an op that count against the memory of a device");
  if (crossing == "host") options->link = CrossingLink::kHost;
  if (memory == "persistent") options->memory = StageMemory::kPersistent;
  if (memory == "none") options->memory = StageMemory::kNone;
}

StageCostOptions StageCostOptionsOf(std::string_view objective) {
  const NamedOptions named = ParseNamedOptions(objective);
  OptionReader reader(named.options, named.name);
  StageCostOptions options;
  ReadStageCostOptions(reader, &options);
  return options;
}

std::span<const ObjectiveEntry> AllObjectives() {
  static constexpr ObjectiveEntry kObjectives[] = {
      {.name = "step_time",
       .summary = "The time of one step.",
       .source = "the engine, or the schedule",
       .metric = "step time",
       .value_field = "step_time_us",
       .bound_field = "lower_bound_us",
       .find_conflicts = FindStepTimeConflicts,
       .bound = StepTimeBound,
       .make = Make<StepTime>,
       .write = WriteResult,
       .print = PrintStepReport},
      {.name = "throughput",
       .summary = "The largest load of a device: the time per micro-batch of a pipeline.",
       .source = "Tarnawski et al. 2020 (dnn-partitioning, throughput)",
       .metric = "max load",
       .value_field = "max_load_us",
       .bound_field = "max_load_bound_us",
       .is_pipeline = true,
       .read_options =
           [](OptionReader& reader) {
             StageCostOptions options;
             ReadStageCostOptions(reader, &options);
           },
       // Over the host, CPUs are devices like others, as in the paper.
       .asks_for_cpus =
           [](const SearchSettings& settings) {
             return StageCostOptionsOf(settings.objective).link == CrossingLink::kHost;
           },
       .find_conflicts = FindMaxLoadConflicts,
       .bound = MaxLoadBound,
       .make = Make<MaxLoadObjective>,
       .write = WriteLoadResult,
       .print = PrintLoadReport},
      {.name = "schedule",
       .summary = "The time of one step that runs a schedule of micro-batches.",
       .source = "the schedule",
       .metric = "step time",
       .value_field = "step_time_us",
       .bound_field = "lower_bound_us",
       .is_listed = false,
       .is_pipeline = true,
       .make = Make<ScheduledStepTime>,
       .write = WriteResult,
       .print = PrintStepReport},
      {.name = "hardware",
       .summary = "The time of one step on real devices.",
       .source = "measurements",
       .metric = "step time",
       .value_field = "step_time_us",
       .bound_field = "lower_bound_us",
       .is_listed = false,
       .bound = StepTimeBound,
       .make = Make<MeasuredStepTime>,
       .write = WriteResult,
       .print = PrintStepReport},
  };
  return kObjectives;
}

std::span<const ObjectiveEntry> ListedObjectives() {
  const std::span<const ObjectiveEntry> all = AllObjectives();
  return {all.begin(), std::ranges::find(all, false, &ObjectiveEntry::is_listed)};
}

const ObjectiveEntry& FindObjective(std::string_view text) {
  const std::span<const ObjectiveEntry> listed = ListedObjectives();
  if (text.empty()) return listed.front();
  const ObjectiveEntry& entry = FindByName(listed, text.substr(0, text.find(':')), "objective");
  const NamedOptions named = ParseNamedOptions(text);
  OptionReader reader(named.options, std::string(entry.name));
  if (entry.read_options != nullptr) entry.read_options(reader);
  reader.Finish();
  return entry;
}

const ObjectiveEntry& ObjectiveOf(const SearchSettings& settings, bool on_devices) {
  if (on_devices) return FindByName(AllObjectives(), "hardware", "objective");
  if (settings.HasSchedule()) return FindByName(AllObjectives(), "schedule", "objective");
  return FindObjective(settings.objective);
}

std::unique_ptr<const Objective> MakeObjective(const ObjectiveContext& context) {
  return ObjectiveOf(context.settings, context.evaluator != nullptr).make(context);
}

void SetLowerBound(const ObjectiveContext& context, StepReport* report) {
  const auto bound_of = ObjectiveOf(context.settings, context.evaluator != nullptr).bound;
  if (bound_of == nullptr) return;
  const LowerBound bound = bound_of(context);
  if (bound.method.empty()) return;
  report->lower_bound_micros = bound.micros;
  report->lower_bound_method = bound.method;
}

}  // namespace emplace::agents
