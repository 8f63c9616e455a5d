#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "sim/formats/result_json.h"
#include "sim/placement.h"
#include "sim/schedule/placed_pipeline.h"
#include "sim/schedule/schedule.h"
#include "sim/schedule/schedule_evaluator.h"
#include "sim/schedule/schedule_simulator.h"
#include "sim/schedule/schedule_trace.h"
#include "sim/simulator.h"
#include "tools/commands.h"
#include "tools/problem.h"
#include "tools/schedule_option.h"

namespace emplace::tools {
namespace {

struct SimulateOptions {
  ProblemOptions problem;
  std::string placement;
  ScheduleOptions schedule;
  ShowOptions show;
};

// The schedule for so many devices, or the one of the file.
PipelineSchedule LoadSchedule(const SimulateOptions& options, std::size_t num_devices) {
  const ScheduleChoice& choice = LoadScheduleChoice(options.schedule);
  if (choice.given) return *choice.given;
  return AtPlace("--schedule " + choice.name,
                 [&] { return MakeSchedule(ParseScheduleName(choice.name, ""), num_devices, choice.micro_batches); });
}

StepReport SimulateWithSchedule(const SimulateOptions& options, const Graph& graph, const Cluster& cluster,
                                const CostTable& costs, const Placement& placement) {
  for (const Device& device : cluster.devices()) {
    if (!device.issue || device.issue->lane.empty()) continue;
    throw InputError(options.problem.cluster.name,
                     fmt::format("{} has the issue lane {}, but schedules know no lane of several devices (no `lane`)",
                                 device.name, Quoted(device.issue->lane)));
  }
  const std::size_t num_devices =
      AtPlace(options.problem.graph.file, [&] { return CountStageDevices(graph, cluster, costs, placement); });
  const PipelineSchedule schedule = LoadSchedule(options, num_devices);
  const PlacedPipeline pipeline = AtPlace(options.placement, [&] {
    return MakePlacedPipeline(graph, cluster, costs, placement, RankOfStage(schedule), options.schedule.name);
  });
  const ScheduleResult result =
      AtPlace("--schedule " + options.schedule.name, [&] { return SimulateSchedule(schedule, pipeline.model); });
  if (!options.show.timeline.empty()) {
    WriteFile(options.show.timeline, [&](std::ostream& out) {
      WriteScheduleTrace(out, OnRanksOf(pipeline.model, schedule), pipeline, result, graph, cluster);
    });
  }
  return MakeScheduleReport(graph, cluster, costs, placement, options.schedule.name, schedule, pipeline, result);
}

StepReport SimulateOneBatch(const SimulateOptions& options, const Graph& graph, const Cluster& cluster,
                            const CostTable& costs, const Placement& placement) {
  const Simulator simulator = MakeSimulator(options.problem, graph, cluster, costs);
  const StepResult result = simulator.Run(placement);
  WriteTimelineFile(options.show.timeline, simulator, graph, cluster, placement);
  return MakeStepReport(graph, cluster, costs, placement, options.problem.engine, result);
}

int Run(const SimulateOptions& options) {
  const ProblemOptions& problem = options.problem;
  CheckScheduleOptions(options.schedule, problem.engine, options.show.timeline);
  CheckFiles({problem.graph.file, problem.cluster.name, options.placement, problem.costs.profile,
              ScheduleFile(options.schedule)},
             {options.show.timeline});
  if (options.show.timeline == "-" && options.show.json) {
    throw InputError("-", "is used for both --timeline and --json (one may be standard output)");
  }
  const Graph graph = experiments::LoadGraph(problem.graph);
  const Cluster cluster = LoadCluster(problem);
  const CostTable costs = LoadCosts(problem, graph, cluster);
  const Placement placement = LoadPlacement(options.placement, graph, cluster, costs);
  const bool has_schedule = options.schedule.any();
  StepReport report =
      (has_schedule ? SimulateWithSchedule : SimulateOneBatch)(options, graph, cluster, costs, placement);
  report.costs = CostsText(problem);
  if (!has_schedule) AddQuickBound(graph, cluster, costs, &report);
  if (options.show.json) {
    WriteResult(std::cout, report);
  } else if (options.show.timeline != "-") {
    PrintReport(std::cout, report);
  }
  return kDone;
}

}  // namespace

Command AddSimulate(CLI::App& app) {
  CLI::App* const command = app.add_subcommand("simulate", "Predict the step time and peak memory of a placement");
  auto options = std::make_shared<SimulateOptions>();
  AddGraphOption(*command, &options->problem);
  AddClusterOptions(*command, &options->problem)->required();
  AddGpusOption(*command, &options->problem);
  command->add_option("--placement", options->placement, "placement.json")->required()->type_name("FILE");
  AddScheduleOptions(*command, &options->schedule);
  AddCostOptions(*command, &options->problem);
  AddEngineOption(*command, &options->problem);
  AddShowOptions(*command, &options->show);
  return {command, [options] { return Run(*options); }};
}

}  // namespace emplace::tools
