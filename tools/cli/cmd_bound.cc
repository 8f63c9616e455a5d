#include <fmt/format.h>

#include <chrono>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "agents/bounds/lower_bound.h"
#include "agents/search.h"
#include "sim/base/check.h"
#include "sim/base/exit_status.h"
#include "sim/base/file_io.h"
#include "sim/base/human_readable.h"
#include "sim/base/printable.h"
#include "sim/base/progress.h"
#include "sim/base/table.h"
#include "sim/base/terminal.h"
#include "sim/formats/report_text.h"
#include "sim/grouping.h"
#include "sim/placement.h"
#include "sim/simulator.h"
#include "tools/cli/commands.h"
#include "tools/cli/numbers.h"
#include "tools/cli/problem.h"
#include "tools/cli/search.h"

namespace emplace::tools {
namespace {

// A first placement for branch and bound.
constexpr std::size_t kFirstEvaluations = 2000;

struct BoundCommandOptions {
  ProblemOptions problem;
  std::string placement;  // "": none
  std::string output;     // "": none
  double seconds = 60;
  bool json = false;
};

std::optional<Placement> FirstPlacement(const BoundCommandOptions& options, const Graph& graph, const Cluster& cluster,
                                        const CostTable& costs, const Simulator& simulator, const SearchStop& stop) {
  if (!options.placement.empty()) {
    return LoadPlacement(options.placement, graph, cluster, costs);
  }
  const bool is_searched =
      agents::CanBeExact(graph, cluster) && !agents::HasOnlySimpleBounds(options.problem.settings.engine);
  // Agents place on all devices, so they need all links.
  if (!is_searched || cluster.FindMissingLink()) return std::nullopt;
  agents::SearchSpec spec = MakeSearchSpec(options.problem, std::nullopt, graph, cluster, costs);
  spec.evaluations = kFirstEvaluations;
  spec.simulator = &simulator;
  spec.stop = [&stop] { return stop(); };
  return agents::RunSearch(spec, {}).best;
}

double Micros(std::int64_t nanos) { return MicrosFromDuration(Duration(nanos)); }

// By how much the best known placement is slower than the bound, at most.
double GapPercent(const agents::BoundReport& report) {
  const std::int64_t bound = agents::Best(report.bounds).nanos;
  return bound > 0 ? 100 * (static_cast<double>(report.best_nanos) / static_cast<double>(bound) - 1) : 0;
}

void PrintText(const BoundCommandOptions& options, const LoadedCosts& costs, const Graph& graph, const Cluster& cluster,
               const agents::BoundReport& report) {
  const agents::Bound& best = agents::Best(report.bounds);
  std::cout << HeadLine(graph.name(), cluster.name(), options.problem.settings.engine, costs.text, costs.detail)
            << '\n';
  std::cout << fmt::format("lower bound  {} ({})\n", HumanReadableMicros(Micros(best.nanos)), best.method);
  if (report.optimal) {
    std::cout << fmt::format("optimal      {}: no placement that fits is faster\n",
                             HumanReadableMicros(Micros(report.best_nanos)));
  } else if (report.best) {
    std::cout << fmt::format(
        "best known   {}{}\n", HumanReadableMicros(Micros(report.best_nanos)),
        best.nanos > 0 ? fmt::format(": at most {:.1f} % slower than the fastest there can be", GapPercent(report))
                       : "");
  } else if (!options.placement.empty()) {
    std::cout << fmt::format("{} does not fit in memory\n", options.placement);
  }
  std::cout << "\n";
  Table table({"argument", "lower bound"});
  for (const agents::Bound& bound : report.bounds) {
    table.Add({std::string(bound.method), HumanReadableMicros(Micros(bound.nanos))});
  }
  table.PrintText(std::cout);
  if (const std::string& engine = options.problem.settings.engine; agents::HasOnlySimpleBounds(engine)) {
    std::cout << fmt::format("\nNo other argument holds for engine {}; fifo and flow have more.\n", engine);
  }
  if (report.nodes > 0) std::cout << fmt::format("\n{} bounded\n", Counted(report.nodes, "partial placement"));
}

void PrintJson(const BoundCommandOptions& options, const LoadedCosts& costs, const Graph& graph, const Cluster& cluster,
               const agents::BoundReport& report) {
  const agents::Bound& best = agents::Best(report.bounds);
  nlohmann::ordered_json json = {{"schema", "emplace.bound"},
                                 {"version", 1},
                                 {"graph", graph.name()},
                                 {"cluster", cluster.name()},
                                 {"engine", options.problem.settings.engine},
                                 {"costs", costs.text},
                                 {"lower_bound_us", Micros(best.nanos)},
                                 {"lower_bound_ns", best.nanos},
                                 {"method", best.method},
                                 {"optimal", report.optimal}};
  if (!costs.detail.empty()) json["costs_detail"] = costs.detail;
  if (report.best) {
    json["step_time_us"] = Micros(report.best_nanos);
    if (best.nanos > 0) json["gap_percent"] = GapPercent(report);
  }
  json["nodes"] = report.nodes;
  json["bounds"] = nlohmann::ordered_json::array();
  for (const agents::Bound& bound : report.bounds) {
    json["bounds"].push_back({{"method", bound.method}, {"lower_bound_us", Micros(bound.nanos)}});
  }
  std::cout << json.dump(1) << "\n";
}

int Run(const BoundCommandOptions& options) {
  const ProblemOptions& problem = options.problem;
  CheckProblem(problem);
  CheckFiles({problem.graph.file, problem.cluster.name, problem.costs.profile, options.placement}, {options.output});
  if (options.output == "-" && options.json) {
    throw InputError("-", "is used for both --placement-out and --json (one may be standard output)");
  }
  const Graph graph = experiments::LoadGraph(problem.graph);
  const Cluster cluster = LoadCluster(problem);
  const LoadedCosts loaded = LoadCosts(problem, graph, cluster);
  const CostTable& costs = loaded.table;
  const Simulator simulator = MakeSimulator(problem, graph, cluster, costs);
  SearchStop stop(options.seconds);
  agents::BoundOptions bound;
  bound.simulation = simulator.options();
  bound.start = FirstPlacement(options, graph, cluster, costs, simulator, stop);
  using Clock = std::chrono::steady_clock;
  const Clock::time_point began = Clock::now();
  bound.seconds = options.seconds;
  agents::BoundReport report;
  {
    Progress progress("bound");
    bound.keep_going = [&](const agents::ExactProgress& now) {
      const double seconds = std::chrono::duration<double>(Clock::now() - began).count();
      progress.ShowWithoutRate({.done = static_cast<std::size_t>(seconds),
                                .total = static_cast<std::size_t>(options.seconds) + 1,
                                .things = "seconds",
                                .note = fmt::format("{}, lower bound {}, best {}", Counted(now.nodes, "node"),
                                                    HumanReadableMicros(Micros(now.bound_nanos)),
                                                    now.best ? HumanReadableMicros(Micros(*now.best)) : "none yet")});
      return !stop();
    };
    report = agents::ProveBound(graph, cluster, costs, bound);
  }
  if (stop.Interrupted()) PrintMessage(fmt::format("stopped by {}: the bound is what was proved so far", stop.Cause()));
  if (!report.fits) {
    PrintMessage(fmt::format("{}: no placement on {} fits in memory: every one was ruled out", problem.graph.file,
                             Printable(cluster.name())));
    return kNotFound;
  }
  if (!options.output.empty()) {
    if (!report.best) {
      throw InputError("--placement-out", "has nothing to write: no placement is known (--placement, or fewer ops)");
    }
  }
  if (options.json) {
    PrintJson(options, loaded, graph, cluster, report);
  } else if (options.output != "-") {
    PrintText(options, loaded, graph, cluster, report);
  }
  if (!std::cout.flush()) throw InputError("-", "standard output cannot be written");
  if (!options.output.empty()) {
    WriteFile(options.output, [&](std::ostream& out) { WritePlacement(out, *report.best, graph, cluster); });
  }
  return kSuccess;
}

}  // namespace

Command AddBound(CLI::App& app) {
  CLI::App* const command =
      app.add_subcommand("bound", "Prove a lower bound of the step time, and find the optimum of small graphs");
  auto options = std::make_shared<BoundCommandOptions>();
  AddGraphOption(*command, &options->problem);
  AddClusterOptions(*command, &options->problem);
  AddGpusOption(*command, &options->problem);
  command
      ->add_option("--seconds", options->seconds,
                   "Time limit in seconds for the linear program and for branch and bound (default: 60)")
      ->type_name("S")
      ->transform(NumberFrom(0.001, 1000000));
  command->add_option("--placement", options->placement, "placement.json to compare with the bound and to start from")
      ->type_name("FILE");
  command
      ->add_option("--placement-out", options->output,
                   "placement.json to write: the fastest known placement, which is the optimum if that was proved")
      ->type_name("FILE");
  AddCostOptions(*command, &options->problem);
  AddSimulationOptions(*command, &options->problem, {"schedule", "micro_batches"});
  command->add_flag("--json", options->json, "Print JSON");
  return {command, [options] { return Run(*options); }};
}

}  // namespace emplace::tools
