// emplace export: a placed and simulated step, or a plan, in a format of others.

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include "datasets/exporters/chakra.h"
#include "datasets/exporters/frameworks.h"
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

constexpr std::string_view kChakra = "chakra";
constexpr std::string_view kPlan = "plan";

struct ExportOptions {
  ProblemOptions problem;
  std::string placement;
  std::string plan;
  std::string schedule = "1f1b";
  std::int64_t micro_batches = 1;
  std::string to;
  std::string out;
};

std::vector<std::string_view> Formats() {
  std::vector<std::string_view> names = {kChakra, kPlan};
  for (const datasets::FrameworkTarget& target : datasets::AllFrameworkTargets()) names.push_back(target.name);
  return names;
}

std::string FormatError(const std::string& text) {
  const std::vector<std::string_view> known = Formats();
  if (std::find(known.begin(), known.end(), text) != known.end()) return "";
  return fmt::format("unknown format {} ({})", Quoted(text), fmt::join(known, ", "));
}

// What the graph, the placement and the plan say, as far as they are given; a plan is made from the placement where the
// format needs one.
std::string FrameworkText(const ExportOptions& options) {
  std::optional<Graph> graph;
  std::optional<Cluster> cluster;
  std::optional<Placement> placement;
  std::optional<datasets::ParallelPlan> plan;
  const std::string& graph_file = options.problem.graph.file;
  if (!graph_file.empty()) graph = experiments::LoadGraph(options.problem.graph);
  if (!options.plan.empty()) {
    plan = datasets::ReadPlan(*OpenForReading(options.plan, InputKind::kPlacement), options.plan);
  }
  if (!options.problem.cluster.name.empty()) cluster = LoadCluster(options.problem);
  if (!options.placement.empty()) {
    placement =
        ReadPlacement(*OpenForReading(options.placement, InputKind::kPlacement), options.placement, *graph, *cluster);
  }
  const bool to_plan = options.to == kPlan;
  const datasets::FrameworkTarget* const target = to_plan ? nullptr : &datasets::FindFrameworkTarget(options.to);
  return WithLocation(options.plan.empty() ? options.placement : options.plan, [&] {
    const bool wants_placement = target != nullptr && target->reads_placement;
    if (placement && !wants_placement) {
      plan = datasets::PlanOfPlacement(*graph, *cluster, *placement, options.micro_batches, options.schedule);
    }
    if (!placement && wants_placement && graph && cluster && options.to != "llama.cpp") {
      placement = datasets::PlacementOfPlan(*graph, *cluster, *plan);
    }
    if (!placement && wants_placement && options.to != "llama.cpp") {
      throw InputError("--graph",
                       fmt::format("and --cluster are missing ({} says where the graph's modules are)", options.to));
    }
    if (to_plan) {
      std::ostringstream text;
      datasets::WritePlan(text, *plan);
      return std::move(text).str();
    }
    return target->write({.graph = graph ? &*graph : nullptr,
                          .cluster = cluster ? &*cluster : nullptr,
                          .placement = placement ? &*placement : nullptr,
                          .plan = plan ? &*plan : nullptr});
  });
}

int RunFramework(const ExportOptions& options) {
  if (options.plan.empty() == options.placement.empty()) {
    throw InputError("--placement", options.plan.empty() ? "is missing (--placement, or --plan)"
                                                         : "and --plan are both given (one of them)");
  }
  if (!options.placement.empty() && (options.problem.graph.file.empty() || options.problem.cluster.name.empty())) {
    throw InputError(options.problem.graph.file.empty() ? "--graph" : "--cluster",
                     "is missing (that of the placement)");
  }
  CheckFiles({options.problem.graph.file, options.problem.cluster.name, options.placement, options.plan},
             {options.out});
  const std::string text = FrameworkText(options);
  WriteFiles({{options.out, [&](std::ostream& out) { out << text; }}});
  if (options.out != "-") PrintMessage(fmt::format("{}: written for {}", options.out, options.to));
  return kSuccess;
}

int RunChakra(const ExportOptions& options);

int Run(const ExportOptions& options) {
  if (options.to != kChakra) return RunFramework(options);
  for (const auto& [name, value] :
       {std::pair<std::string_view, std::string_view>{"--graph", options.problem.graph.file},
        {"--cluster", options.problem.cluster.name},
        {"--placement", options.placement}}) {
    if (value.empty()) throw InputError(std::string(name), "is missing (chakra is a simulated step)");
  }
  if (!options.plan.empty()) throw InputError("--plan", "does not go with --to chakra (a placement)");
  return RunChakra(options);
}

int RunChakra(const ExportOptions& options) {
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
  std::cout << fmt::format("{} on {}, costs {}: a step of {}\n", Printable(graph.name()), Printable(cluster.name()),
                           Printable(loaded.text), step);
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
  for (const char* const name : {"--graph", "--cluster"}) command->get_option(name)->required(false);
  command->add_option("--placement", options->placement, "placement.json")->type_name("FILE");
  command->add_option("--plan", options->plan, "plan.json, instead of a placement; needs no cluster")
      ->type_name("FILE");
  command->add_option("--schedule", options->schedule, "Schedule of a plan made from a placement's stages")
      ->type_name("NAME");
  command->add_option("--micro-batches", options->micro_batches, "Micro-batches of such a plan")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 20));
  AddCostOptions(*command, &options->problem);
  std::string formats = "Format: chakra (Chakra Execution Traces, one for each device), plan (emplace.plan)";
  for (const datasets::FrameworkTarget& target : datasets::AllFrameworkTargets()) {
    formats += fmt::format(", {} ({})", target.name, target.summary);
  }
  command->add_option("--to", options->to, formats)
      ->required()
      ->type_name("FORMAT")
      ->check(CLI::Validator(FormatError, "", "to"));
  command
      ->add_option(
          "-o,--out", options->out,
          "File to write, - for standard output; of chakra a PREFIX: PREFIX.0.et for the first device, and so on")
      ->required()
      ->type_name("FILE");
  return {command, [options] { return Run(*options); }};
}

}  // namespace emplace::tools
