// emplace export: a placed and simulated step in a format of others.

#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <system_error>
#include <vector>

#include "datasets/exporters/chakra.h"
#include "sim/base/check.h"
#include "sim/base/exit_status.h"
#include "sim/base/file_io.h"
#include "sim/base/human_readable.h"
#include "sim/base/json_text.h"
#include "sim/base/printable.h"
#include "sim/base/progress.h"
#include "sim/base/terminal.h"
#include "sim/placement.h"
#include "sim/simulator.h"
#include "tools/cli/commands.h"
#include "tools/cli/problem.h"

namespace emplace::tools {
namespace {

struct ExportOptions {
  ProblemOptions problem;
  std::string placement;
  std::string to;
  std::string out;
};

std::string FormatError(const std::string& text) {
  return text == "chakra" ? "" : fmt::format("unknown format {} (chakra)", Quoted(text));
}

int Run(const ExportOptions& options) {
  const BusyLine busy("export");
  const ProblemOptions& problem = options.problem;
  const std::vector<std::string> inputs = {problem.graph.file, problem.cluster.name, options.placement,
                                           problem.costs.profile};
  CheckFiles(inputs, {});
  if (options.out == "-") throw InputError("--out", "\"-\" is not a prefix of files (PREFIX.0.et, PREFIX.1.et, ...)");
  const Graph graph = experiments::LoadGraph(problem.graph);
  Cluster cluster = LoadCluster(problem);
  if (cluster.has_issue_lanes()) {
    PrintMessage(
        "note: Chakra's nodes cannot say what issuing an op takes: the step is without the cluster's issue lanes");
    cluster = cluster.WithoutIssueLanes();
  }
  std::vector<std::string> outputs;
  outputs.reserve(cluster.num_devices());
  for (std::size_t d = 0; d < cluster.num_devices(); ++d) outputs.push_back(fmt::format("{}.{}.et", options.out, d));
  CheckFiles(inputs, outputs);
  // Read with those that are written now, as PREFIX.*.et, it would be a rank of their step.
  const std::string stale = fmt::format("{}.{}.et", options.out, cluster.num_devices());
  std::error_code ignored;
  if (std::filesystem::exists(stale, ignored)) {
    throw InputError(stale, fmt::format("is of a step on more than {} devices (remove it and those after it, or "
                                        "choose another --out)",
                                        cluster.num_devices()));
  }
  const LoadedCosts loaded = LoadCosts(problem, graph, cluster);
  const CostTable& costs = loaded.table;
  const Placement placement = LoadPlacement(options.placement, graph, cluster, costs);
  const Simulator simulator(graph, cluster, costs, {.peak_memory = false});
  const auto ranks = datasets::MakeChakraRanks(graph, cluster, placement, simulator.Record(placement));
  std::vector<FileToWrite> files;
  files.reserve(ranks.size());
  for (const datasets::ChakraRank& rank : ranks) {
    files.push_back({outputs.at(static_cast<std::size_t>(rank.rank)),
                     [&rank](std::ostream& out) { datasets::WriteChakra(out, rank.nodes); }});
  }
  WriteFiles(files);
  const std::string step = HumanReadableMicros(simulator.Run(placement).step_time_micros);
  std::cout << fmt::format("{} on {}: a step of {}\n", Printable(graph.name()), Printable(cluster.name()), step);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    std::cout << fmt::format("{}: {} nodes of {}\n", Printable(files[i].path), ranks[i].nodes.size(),
                             Printable(cluster.devices()[i].name));
  }
  return kSuccess;
}

}  // namespace

Command AddExport(CLI::App& app) {
  CLI::App* const command = app.add_subcommand("export", "Write a placed and simulated step for other programs");
  auto options = std::make_shared<ExportOptions>();
  AddGraphOption(*command, &options->problem);
  AddClusterOptions(*command, &options->problem);
  AddGpusOption(*command, &options->problem);
  command->add_option("--placement", options->placement, "placement.json")->required()->type_name("FILE");
  AddCostOptions(*command, &options->problem);
  command->add_option("--to", options->to, "Format: chakra (Chakra Execution Traces, one for each device)")
      ->required()
      ->type_name("FORMAT")
      ->check(CLI::Validator(FormatError, "", "to"));
  command->add_option("--out", options->out, "Files to write: PREFIX.0.et for the first device, and so on")
      ->required()
      ->type_name("PREFIX");
  return {command, [options] { return Run(*options); }};
}

}  // namespace emplace::tools
