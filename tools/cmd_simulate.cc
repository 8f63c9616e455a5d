#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "sim/base/json_text.h"
#include "sim/formats/result_json.h"
#include "sim/placement.h"
#include "sim/schedule/placed_pipeline.h"
#include "sim/schedule/schedule.h"
#include "sim/schedule/schedule_csv.h"
#include "sim/schedule/schedule_simulator.h"
#include "sim/schedule/schedule_trace.h"
#include "sim/simulator.h"
#include "tools/commands.h"
#include "tools/numbers.h"
#include "tools/problem.h"

namespace emplace::tools {
namespace {

struct SimulateOptions {
  ProblemOptions problem;
  std::string placement;
  std::string schedule = "none";
  std::optional<std::size_t> micro_batches;
  ShowOptions show;
};

bool IsScheduleFile(const std::string& schedule) {
  return schedule == "-" || schedule.ends_with(".csv") || schedule.ends_with(".csv.gz");
}

// What is wrong is said before any file is read.
void CheckScheduleOptions(const SimulateOptions& options) {
  if (options.schedule == "none") {
    if (options.micro_batches) throw InputError("--micro-batches", "is used without a schedule (--schedule gpipe ..)");
    return;
  }
  if (options.problem.engine != "fifo") {
    throw InputError("--engine", fmt::format("{} runs no schedules (fifo)", Quoted(options.problem.engine)));
  }
  const std::string& timeline = options.show.timeline;
  if (timeline.ends_with(".svg") || timeline.ends_with(".svg.gz")) {
    throw InputError("--timeline", fmt::format("{} is no timeline of a schedule (.json, trace events)", timeline));
  }
  if (IsScheduleFile(options.schedule)) return;
  ParseScheduleName(options.schedule, "--schedule");
  if (!options.micro_batches) {
    throw InputError("--micro-batches", fmt::format("is missing (how many {} is to run)", options.schedule));
  }
}

// The schedule for so many devices, or the one of the file.
PipelineSchedule LoadSchedule(const SimulateOptions& options, std::size_t num_devices) {
  if (!IsScheduleFile(options.schedule)) {
    return AtPlace("--schedule " + options.schedule, [&] {
      return MakeSchedule(ParseScheduleName(options.schedule, ""), num_devices, *options.micro_batches);
    });
  }
  PipelineSchedule schedule = ReadScheduleCsv(*OpenForReading(options.schedule), options.schedule);
  if (options.micro_batches && *options.micro_batches != schedule.micro_batches) {
    throw InputError("--micro-batches", fmt::format("is {}, but {} has {} (leave it out)", *options.micro_batches,
                                                    options.schedule, schedule.micro_batches));
  }
  return schedule;
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
    return MakePlacedPipeline(graph, cluster, costs, placement, RankOfStage(schedule), options.schedule);
  });
  const ScheduleResult result =
      AtPlace("--schedule " + options.schedule, [&] { return SimulateSchedule(schedule, pipeline.model); });
  if (!options.show.timeline.empty()) {
    WriteFile(options.show.timeline, [&](std::ostream& out) {
      WriteScheduleTrace(out, OnRanksOf(pipeline.model, schedule), pipeline, result, graph, cluster);
    });
  }
  return MakeScheduleReport(graph, cluster, costs, placement, options.schedule, schedule, pipeline, result);
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
  CheckScheduleOptions(options);
  CheckFiles({problem.graph.file, problem.cluster.name, options.placement, problem.costs.profile,
              IsScheduleFile(options.schedule) ? options.schedule : ""},
             {options.show.timeline});
  if (options.show.timeline == "-" && options.show.json) {
    throw InputError("-", "is used for both --timeline and --json (one may be standard output)");
  }
  const Graph graph = experiments::LoadGraph(problem.graph);
  const Cluster cluster = LoadCluster(problem);
  const CostTable costs = LoadCosts(problem, graph, cluster);
  const Placement placement = LoadPlacement(options.placement, graph, cluster, costs);
  const bool has_schedule = options.schedule != "none";
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
  command
      ->add_option(
          "--schedule", options->schedule,
          "The graph is one micro-batch of a pipeline, which runs this schedule: gpipe, 1f1b, interleaved:V "
          "(V stages on each device), zb-h1, zb-v, or a file of torch.distributed.pipelining that ends in .csv "
          "(default: none, the graph is the whole step)")
      ->type_name("NAME|FILE");
  command
      ->add_option("--micro-batches", options->micro_batches,
                   "Micro-batches of the schedule (default: what its file has)")
      ->type_name("M")
      ->transform(IntegerFrom(1, kMaxActions));
  AddCostOptions(*command, &options->problem);
  AddEngineOption(*command, &options->problem);
  AddShowOptions(*command, &options->show);
  return {command, [options] { return Run(*options); }};
}

}  // namespace emplace::tools
