#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "agents/bounds/lower_bound.h"
#include "sim/base/check.h"
#include "sim/base/exit_status.h"
#include "sim/base/file_io.h"
#include "sim/base/progress.h"
#include "sim/formats/report_text.h"
#include "sim/formats/result_json.h"
#include "sim/placement.h"
#include "sim/schedule/placed_pipeline.h"
#include "sim/schedule/schedule.h"
#include "sim/schedule/schedule_evaluator.h"
#include "sim/schedule/schedule_simulator.h"
#include "sim/schedule/steady_state.h"
#include "sim/simulator.h"
#include "tools/cli/commands.h"
#include "tools/cli/importing.h"
#include "tools/cli/problem.h"
#include "tools/cli/search.h"

namespace emplace::tools {
namespace {

struct SimulateOptions {
  ProblemOptions problem;
  std::string placement;
  bool steady_state = false;
  ShowOptions show;
};

StepReport SimulateWithSchedule(const SimulateOptions& options, const ScheduleChoice& choice, const Graph& graph,
                                const Cluster& cluster, const CostTable& costs, const Placement& placement,
                                std::vector<FileToWrite>* files) {
  const std::string place = "--schedule " + choice.name;
  const auto step = std::make_shared<const ScheduledStep>(
      SimulatePlacedSchedule(graph, cluster, costs, placement, choice,
                             {.graph = options.problem.graph.file, .placement = options.placement, .schedule = place}));
  const auto& [schedule, pipeline, result] = *step;
  StepReport report = MakeScheduleReport(graph, cluster, costs, placement, choice.name, schedule, pipeline, result);
  if (options.steady_state) {
    const ScheduleName name = ParseScheduleName(choice.name, "");
    const std::size_t ranks = CountStageDevices(graph, cluster, costs, placement);
    const SteadyState steady =
        WithLocation(place, [&, &pipeline = pipeline] { return FindSteadyState(name, ranks, pipeline.model); });
    report.schedule->steady_state = {.micros_per_micro_batch = steady.MicrosPerMicroBatch(),
                                     .bottleneck = BottleneckText(steady, cluster, pipeline.devices)};
  }
  *files = ScheduleTimelineFile(options.show.timeline, step, graph, cluster);
  return report;
}

StepReport SimulateOneBatch(const SimulateOptions& options, const Graph& graph, const Cluster& cluster,
                            const CostTable& costs, const Placement& placement, std::vector<FileToWrite>* files) {
  const Simulator simulator = MakeSimulator(options.problem, graph, cluster, costs);
  const StepResult result = simulator.Run(placement);
  *files = TimelineFile(options.show.timeline, simulator, graph, cluster, placement);
  return MakeStepReport(graph, cluster, costs, placement, options.problem.settings.engine, result);
}

int Run(const SimulateOptions& options) {
  const BusyLine busy("simulate");
  const ProblemOptions& problem = options.problem;
  CheckProblem(problem);
  const agents::SearchSettings settings = Resolved(problem.settings);
  if (options.steady_state && settings.schedule.empty()) {
    throw InputError("--steady-state", "is only for a schedule (--schedule 1f1b ..)");
  }
  if (options.steady_state && agents::IsScheduleFile(settings.schedule)) {
    throw InputError("--steady-state", "needs a named schedule, because a file defines no further micro-batches");
  }
  std::vector<std::string> inputs = InputFiles(problem);
  inputs.push_back(options.placement);
  CheckFiles(inputs, {options.show.timeline});
  if (options.show.timeline == "-" && options.show.json) {
    throw InputError("-", "is used for both --timeline and --json (one may be standard output)");
  }
  Graph graph = experiments::LoadGraph(problem.graph);
  RepeatUnexplained(graph, problem.graph.file);
  const Cluster cluster = LoadCluster(problem);
  LoadedCosts loaded = LoadCosts(problem, graph, cluster);
  const Placement placement = LoadOrderedPlacement(problem, options.placement, cluster, &graph, &loaded);
  const CostTable& costs = loaded.table;
  const std::optional<ScheduleChoice> schedule = LoadSchedule(settings, agents::Door::kCommandLine);
  std::vector<FileToWrite> files;
  StepReport report = schedule ? SimulateWithSchedule(options, *schedule, graph, cluster, costs, placement, &files)
                               : SimulateOneBatch(options, graph, cluster, costs, placement, &files);
  loaded.SetIn(&report);
  agents::AddLowerBound(graph, cluster, costs, &report);
  if (options.show.timeline != "-") {
    files.push_back(
        {"-", [&](std::ostream& out) { options.show.json ? WriteResult(out, report) : PrintStepReport(out, report); }});
  }
  WriteFiles(files);
  return kSuccess;
}

}  // namespace

Command AddSimulate(CLI::App& app) {
  CLI::App* const command = app.add_subcommand("simulate", "Predict the step time and peak memory of a placement");
  auto options = std::make_shared<SimulateOptions>();
  AddGraphOption(*command, &options->problem);
  AddClusterOptions(*command, &options->problem);
  AddGpusOption(*command, &options->problem);
  command->add_option("--placement", options->placement, "placement.json")->required()->type_name("FILE");
  command->add_flag(
      "--steady-state", options->steady_state,
      "With --schedule: also print the time that each further micro-batch adds to a step, and the bottleneck");
  AddCostOptions(*command, &options->problem);
  AddSimulationOptions(*command, &options->problem);
  AddShowOptions(*command, &options->show);
  return {command, [options] { return Run(*options); }};
}

}  // namespace emplace::tools
