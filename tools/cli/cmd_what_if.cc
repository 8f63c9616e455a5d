// emplace what-if: the step of a placement on a cluster with other links, memory or kinds of devices.

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "agents/named_placement.h"
#include "agents/objective.h"
#include "agents/search.h"
#include "sim/base/check.h"
#include "sim/base/exit_status.h"
#include "sim/base/file_io.h"
#include "sim/base/human_readable.h"
#include "sim/base/json_text.h"
#include "sim/base/printable.h"
#include "sim/base/progress.h"
#include "sim/base/table.h"
#include "sim/base/terminal.h"
#include "sim/cluster.h"
#include "sim/formats/report_text.h"
#include "sim/placement.h"
#include "sim/simulator.h"
#include "tools/cli/commands.h"
#include "tools/cli/problem.h"
#include "tools/cli/search.h"

namespace emplace::tools {
namespace {

struct WhatIfOptions {
  ProblemOptions problem;
  std::string placement;
  ClusterChanges changes;
  std::vector<std::string> kinds;  // OLD=NEW
  bool search = false;
  std::string output;
  bool json = false;
};

// The objective's answers on one cluster. What it refers to must outlive it.
class Answers {
 public:
  Answers(const ProblemOptions& problem, const Graph& graph, const Cluster& cluster,
          const std::optional<ScheduleChoice>& schedule)
      : graph_(graph),
        cluster_(cluster),
        schedule_(schedule),
        costs_(LoadCosts(problem, graph, cluster)),
        simulator_(MakeSimulator(problem, graph, cluster, costs_.table)),
        spec_(MakeSearchSpec(problem, schedule, graph, cluster, costs_.table)),
        objective_(MakeObjective(problem, {.graph = graph,
                                           .cluster = cluster,
                                           .costs = costs_.table,
                                           .settings = spec_,
                                           .schedule = schedule,
                                           .simulator = &simulator_})) {}

  const CostTable& costs() const { return costs_.table; }

  // Throws InputError(FILE) on a placement that cannot run.
  StepReport Of(const Placement& placement, const std::string& file) const {
    WithLocation(file, [&] { CheckPlacement(placement, graph_, cluster_, costs()); });
    const StepResult result = objective_->RunWithPeakMemory(placement);
    if (!result.runs) throw InputError(file, "is no pipeline for --schedule " + schedule_.value().name);
    StepReport report = objective_->Report(placement, result);
    costs_.SetIn(&report);
    return report;
  }

  // Begins at `start` where that fits.
  agents::SearchResult Search(const Placement& start) {
    if (Of(start, "").fits_memory) spec_.given_start = start;
    spec_.simulator = &simulator_;
    SearchStop stop(spec_.seconds);
    spec_.stop = [&stop] { return stop(); };
    Progress progress(spec_.agent);
    return agents::RunSearch(agents::WithNamedPlacements(spec_),
                             [&progress](const agents::SearchProgress& now) { progress.Show(ProgressOf(now)); });
  }

 private:
  const Graph& graph_;
  const Cluster& cluster_;
  const std::optional<ScheduleChoice>& schedule_;
  LoadedCosts costs_;
  Simulator simulator_;
  agents::SearchSpec spec_;
  std::unique_ptr<const agents::Objective> objective_;
};

std::string ChangesText(const ClusterChanges& changes) {
  std::vector<std::string> parts;
  const auto add = [&](std::string_view name, double factor) {
    if (factor != 1) parts.push_back(fmt::format("{} x {}", name, factor));
  };
  add("bandwidth", changes.bandwidth);
  add("latency", changes.latency);
  add("memory", changes.memory);
  for (const auto& [old_kind, new_kind] : changes.kinds)
    parts.push_back(fmt::format("{} becomes {}", old_kind, new_kind));
  return fmt::format("{}", fmt::join(parts, ", "));
}

using NamedReport = std::pair<std::string, StepReport>;

void Print(std::ostream& out, const ClusterChanges& changes, const std::vector<NamedReport>& rows,
           std::string_view value) {
  out << HeadLine(rows.front().second) << "\nif           " << ChangesText(changes) << "\n\n";
  Table table({"placement", std::string(value), "times as fast", "busiest device", "largest peak memory", "fits"});
  const double before = rows.front().second.step_time_micros;
  for (const auto& [name, report] : rows) {
    table.Add({name, HumanReadableMicros(report.step_time_micros),
               report.step_time_micros > 0 ? fmt::format("{:.3f}", before / report.step_time_micros) : "",
               HumanReadableMicros(report.busiest_device_micros), HumanReadable(LargestPeak(report)),
               report.fits_memory ? "yes" : "no"});
  }
  table.PrintText(out);
}

void WriteJson(std::ostream& out, const ClusterChanges& changes, const std::vector<NamedReport>& rows,
               std::string_view value_field) {
  const StepReport& first = rows.front().second;
  using Json = nlohmann::ordered_json;
  Json kinds = Json::object();
  for (const auto& [old_kind, new_kind] : changes.kinds) kinds[old_kind] = new_kind;
  Json json = {
      {"schema", "emplace.what_if"},
      {"version", 1},
      {"graph", first.graph},
      {"cluster", first.cluster},
      {"engine", first.engine},
      {"costs", first.costs},
      {"changes",
       {{"bandwidth", changes.bandwidth}, {"latency", changes.latency}, {"memory", changes.memory}, {"kinds", kinds}}}};
  if (!first.costs_detail.empty()) json["costs_detail"] = first.costs_detail;
  for (const auto& [name, report] : rows) {
    json[name] = {{std::string(value_field), report.step_time_micros},
                  {"fits_memory", report.fits_memory},
                  {"busiest_device_us", report.busiest_device_micros},
                  {"peak_bytes", LargestPeak(report).count}};
  }
  out << json.dump(1) << '\n';
}

ClusterChanges ChangesOf(const WhatIfOptions& options) {
  ClusterChanges changes = options.changes;
  for (const std::string& text : options.kinds) {
    const std::size_t at = text.find('=');
    if (at == 0 || at == std::string::npos || at + 1 == text.size()) {
      throw InputError("--kind", "is " + Quoted(text) + " (OLD=NEW, such as h100=b200)");
    }
    const std::string old_kind = text.substr(0, at);
    for (const auto& [known, _] : changes.kinds) {
      if (known == old_kind) throw InputError("--kind", "names " + Quoted(old_kind) + " twice (once)");
    }
    changes.kinds.emplace_back(old_kind, text.substr(at + 1));
  }
  if (ChangesText(changes).empty()) {
    throw InputError("what-if", "nothing is changed (--bandwidth, --latency, --memory, --kind)");
  }
  return changes;
}

int Run(const WhatIfOptions& options) {
  BusyLine busy("what-if");
  ProblemOptions problem = options.problem;
  CheckProblem(problem);
  const ClusterChanges changes = ChangesOf(options);
  if (!options.output.empty() && !options.search) throw InputError("--output", "needs --search");
  if (options.output == "-" && options.json) {
    throw InputError("-", "is used for both --output and --json (one may be standard output)");
  }
  std::vector<std::string> inputs = InputFiles(problem);
  inputs.push_back(options.placement);
  CheckFiles(inputs, {options.output});
  const Graph graph = experiments::LoadGraph(problem.graph);
  const Cluster cluster = LoadCluster(problem);
  const Cluster changed = cluster.WithChanges(changes);
  // The same for both clusters. Curves that are not named are for both: the second may have kinds without them.
  problem.costs = ChosenCosts(options.problem, graph, cluster);
  if (problem.costs.model == "curves") problem.costs = ChosenCosts(options.problem, graph, changed);
  const std::optional<ScheduleChoice> schedule = LoadSchedule(Resolved(problem.settings), agents::Door::kCommandLine);
  const Answers before(problem, graph, cluster, schedule);
  Answers after(problem, graph, changed, schedule);
  const Placement placement = LoadPlacement(options.placement, graph, cluster, before.costs());
  std::vector<NamedReport> rows = {{"before", before.Of(placement, options.placement)},
                                   {"held", after.Of(placement, options.placement)}};
  busy.End();
  std::vector<FileToWrite> files;
  std::optional<Placement> found;
  if (options.search) {
    found = after.Search(placement).best;
    if (found) rows.emplace_back("searched", after.Of(*found, ""));
    if (!found) PrintMessage("what-if: no placement that fits was found");
    if (found && !options.output.empty()) {
      files.push_back({options.output, [&](std::ostream& out) { WritePlacement(out, *found, graph, changed); }});
    }
  }
  const agents::ObjectiveEntry& objective = agents::ObjectiveOf(problem.settings);
  if (options.output != "-") {
    files.push_back({"-", [&](std::ostream& out) {
                       options.json ? WriteJson(out, changes, rows, objective.value_field)
                                    : Print(out, changes, rows, objective.metric);
                     }});
  }
  WriteFiles(files);
  return options.search && !found ? kNotFound : kSuccess;
}

}  // namespace

Command AddWhatIf(CLI::App& app) {
  CLI::App* const command =
      app.add_subcommand("what-if", "Predict the step of a placement with other links, memory or kinds of devices");
  auto options = std::make_shared<WhatIfOptions>();
  AddGraphOption(*command, &options->problem);
  AddClusterOptions(*command, &options->problem);
  AddGpusOption(*command, &options->problem);
  command->add_option("--placement", options->placement, "placement.json")->required()->type_name("FILE");
  ClusterChanges& changes = options->changes;
  command->add_option("--bandwidth", changes.bandwidth, "Multiply the bandwidth of links")->type_name("FACTOR");
  command
      ->add_option("--latency", changes.latency,
                   "Multiply the latency of links, their gaps after transfers, and the launch time of collectives")
      ->type_name("FACTOR");
  command->add_option("--memory", changes.memory, "Multiply the memory of devices")->type_name("FACTOR");
  command
      ->add_option("--kind", options->kinds,
                   "Replace devices of a kind by another kind, with its memory; may be repeated")
      ->type_name("OLD=NEW")
      ->allow_extra_args(false);
  command->add_flag("--search", options->search,
                    "Also search for a placement on the changed cluster, starting from the one that is held");
  command->add_option("-o,--output", options->output, "With --search: placement.json to write")->type_name("FILE");
  AddCostOptions(*command, &options->problem);
  AddSearchOptions(*command, &options->problem, {"start", "validate_every"});
  command->add_flag("--json", options->json, "Print JSON");
  return {command, [options] { return Run(*options); }};
}

}  // namespace emplace::tools
