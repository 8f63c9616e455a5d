#include <iostream>
#include <memory>
#include <string>

#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "sim/formats/result_json.h"
#include "sim/placement.h"
#include "sim/simulator.h"
#include "tools/commands.h"
#include "tools/problem.h"

namespace emplace::tools {
namespace {

struct SimulateOptions {
  ProblemOptions problem;
  std::string placement;
  ShowOptions show;
};

int Run(const SimulateOptions& options) {
  const ProblemOptions& problem = options.problem;
  CheckFiles({problem.graph.file, problem.cluster.name, options.placement, problem.costs.profile},
             {options.show.timeline});
  if (options.show.timeline == "-" && options.show.json) {
    throw InputError("-", "is used for both --timeline and --json (one may be standard output)");
  }
  const Graph graph = experiments::LoadGraph(problem.graph);
  const Cluster cluster = LoadCluster(problem);
  const CostTable costs = LoadCosts(problem, graph, cluster);
  const Placement placement = LoadPlacement(options.placement, graph, cluster, costs);
  const Simulator simulator = MakeSimulator(problem, graph, cluster, costs);
  const StepResult result = simulator.Run(placement);
  WriteTimelineFile(options.show.timeline, simulator, graph, cluster, placement);
  StepReport report = MakeStepReport(graph, cluster, costs, placement, problem.engine, result);
  report.costs = CostsText(problem);
  AddQuickBound(graph, cluster, costs, &report);
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
  AddCostOptions(*command, &options->problem);
  AddEngineOption(*command, &options->problem);
  AddShowOptions(*command, &options->show);
  return {command, [options] { return Run(*options); }};
}

}  // namespace emplace::tools
