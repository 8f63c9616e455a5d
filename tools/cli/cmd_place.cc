#include <fmt/format.h>

#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "agents/agent.h"
#include "agents/bounds/lower_bound.h"
#include "agents/heuristics/order_search.h"
#include "agents/named_placement.h"
#include "agents/search.h"
#include "experiments/plan/hardware_choice.h"
#include "experiments/validation/periodic_validation.h"
#include "sim/base/check.h"
#include "sim/base/exit_status.h"
#include "sim/base/file_io.h"
#include "sim/base/human_readable.h"
#include "sim/base/printable.h"
#include "sim/base/progress.h"
#include "sim/base/terminal.h"
#include "sim/bounds.h"
#include "sim/formats/report_text.h"
#include "sim/formats/result_json.h"
#include "sim/placement.h"
#include "sim/schedule/schedule_evaluator.h"
#include "sim/simulator.h"
#include "tools/cli/commands.h"
#include "tools/cli/hardware.h"
#include "tools/cli/importing.h"
#include "tools/cli/place_inference.h"
#include "tools/cli/problem.h"
#include "tools/cli/search.h"

namespace emplace::tools {
namespace {

// An untrained policy with a lower entropy is almost deterministic, so its search starts narrow.
constexpr double kDecidedEntropy = 0.5;

std::vector<std::string_view> AgentsWithPolicies() {
  std::vector<std::string_view> names;
  for (const agents::AgentEntry& entry : agents::AllAgents()) {
    if (agents::MakeAgent(entry.name, {}, {})->HasPolicy()) names.push_back(entry.name);
  }
  return names;
}

struct PlaceOptions {
  ProblemOptions problem;
  std::string checkpoint;
  std::string policy;
  std::string policy_output;
  std::string output;
  ShowOptions show;
  InferencePlaceOptions inference;
  bool order = false;
  std::optional<double> max_error;  // percent
};

int PrintThatNothingFits(const PlaceOptions& options, const agents::SearchResult& result) {
  std::string by_how_much;
  if (result.smallest_overflow_bytes) {
    by_how_much = fmt::format(": the nearest is over by {} in all",
                              HumanReadable(Bytes{RoundToInteger(*result.smallest_overflow_bytes)}));
  }
  const agents::SearchSettings settings = Resolved(options.problem.settings);
  std::string one_device;
  if (result.one_device_micros) {
    one_device = fmt::format("; everything on one device takes {} and fits: --agent single_device",
                             HumanReadableMicros(*result.one_device_micros));
  }
  PrintMessage(fmt::format("{}: no placement that {}fits was found in {} of {}{}{}", options.problem.graph.file,
                           settings.schedule.empty() ? "" : "is a pipeline for " + settings.schedule + " and ",
                           Counted(result.evaluations, "evaluation"), settings.agent, by_how_much, one_device));
  return kNotFound;
}

// The printed description of the result.
std::string Summary(const PlaceOptions& options, const agents::SearchResult& result, const StepReport& report,
                    const StepResult& one_device, const experiments::PeriodicValidation* validation) {
  std::ostringstream text;
  const agents::SearchSettings& settings = options.problem.settings;
  const agents::ObjectiveEntry& objective = agents::ObjectiveOf(settings);
  if (options.show.json) {
    objective.write(text, report);
    if (validation == nullptr) return std::move(text).str();
    nlohmann::ordered_json json = nlohmann::ordered_json::parse(text.str());
    json["validation"] = ValidationJson(*validation, result.times.simulator);
    return json.dump(1) + '\n';
  }
  text << fmt::format("agent {}, seed {}: {}, {}, {} of them fit\n", settings.agent, settings.seed,
                      Counted(result.num_groups, "group"), Counted(result.evaluations, "evaluation"), result.fitting);
  if (!result.episodes.empty()) {
    const double first = result.episodes.front().entropy;
    // A loaded policy and one that begins at a start are narrow on purpose.
    const bool is_untaught = options.policy.empty() && settings.start.empty();
    text << fmt::format(
        "policy entropy, of the largest possible: {:.2f} in the first episode, {:.2f} in the last{}\n", first,
        result.episodes.back().entropy,
        is_untaught && first < kDecidedEntropy ? " (below 0.5 at first: decided before it had learned anything)" : "");
  }
  if (!result.note.empty()) text << result.note << '\n';
  objective.print(text, report);
  if (validation != nullptr) {
    text << '\n';
    PrintValidation(text, *validation, result.times.simulator);
  }
  if (report.one_device_micros && report.step_time_micros > *report.one_device_micros) {
    text << fmt::format("\nWORSE than everything on one device, which takes {} and fits: --agent single_device{}\n",
                        HumanReadableMicros(*report.one_device_micros),
                        one_device.fits_memory ? "" : " --set device=NAME");
  } else if (one_device.runs) {
    text << fmt::format("\non one device {}{}: {:.2f} times as long\n",
                        HumanReadableMicros(one_device.step_time_micros),
                        one_device.fits_memory ? "" : ", where it does not fit",
                        report.step_time_micros > 0 ? one_device.step_time_micros / report.step_time_micros : 1);
  }
  if (result.is_proved) text << "\nproved: no placement that fits is faster\n";
  if (result.single_ops_micros) {
    text << SingleOpsText("whole modules", report.step_time_micros, *result.single_ops_micros) << '\n';
  }
  return std::move(text).str();
}

std::vector<FileToWrite> TimelineOf(const PlaceOptions& options, const agents::ObjectiveContext& problem,
                                    const Placement& placement) {
  if (options.show.timeline.empty()) return {};
  if (!problem.schedule) {
    return TimelineFile(options.show.timeline, *problem.simulator, problem.graph, problem.cluster, placement);
  }
  const ScheduleEvaluator evaluator(problem.graph, problem.cluster, problem.costs, *problem.schedule);
  return ScheduleTimelineFile(options.show.timeline,
                              std::make_shared<const ScheduledStep>(evaluator.Simulate(placement)), problem.graph,
                              problem.cluster);
}

// `place --order`: the placement and the order that were found together, or those of the search before it, whichever
// the engine says is faster.
struct Ordered {
  Graph graph;  // with the order's edges
  Placement placement;
  PlacementOrder order;  // in ids of the graph without them
  Placement of_file;
  StepResult result;
  bool is_proved = false;
};

// The order in which the ops of a placement start.
PlacementOrder OrderOf(const Timeline& timeline, std::size_t num_devices) {
  PlacementOrder order;
  order.ops.resize(num_devices);
  for (const Timeline::OpRun& run : timeline.ops) order.ops[Index(run.device)].push_back(run.op);
  return order;
}

Placement Renamed(const Placement& placement, const Graph& from, const Graph& to) {
  Placement renamed(to.num_ops());
  for (std::size_t i = 0; i < from.num_ops(); ++i) {
    const OpId id = MakeId<OpId>(i);
    renamed[*to.FindOp(from.op(id).name)] = placement[id];
  }
  return renamed;
}

Ordered SearchOrder(const PlaceOptions& options, const Graph& graph, const Cluster& cluster, const CostTable& costs,
                    const Simulator& simulator, const std::optional<Placement>& searched,
                    const std::function<bool()>& stop) {
  const agents::SearchSettings& settings = options.problem.settings;
  agents::OrderSearchOptions search;
  search.seed = settings.seed;
  search.stop = stop;
  if (settings.evaluations > 0) search.schedules = settings.evaluations;
  agents::OrderedPlacement found = agents::FindOrder(graph, cluster, costs, search);
  std::vector<std::pair<Placement, PlacementOrder>> candidates;
  candidates.emplace_back(std::move(found.placement), std::move(found.order));
  if (searched) candidates.emplace_back(*searched, OrderOf(simulator.Record(*searched), cluster.num_devices()));
  std::optional<Ordered> best;
  for (const auto& [placement, order] : candidates) {
    Graph ordered = WithOrder(graph, order);
    const LoadedCosts own = LoadCosts(options.problem, ordered, cluster);
    const Placement renamed = Renamed(placement, graph, ordered);
    const StepResult result = MakeSimulator(options.problem, ordered, cluster, own.table).Run(renamed);
    const bool is_better =
        !best || (result.fits_memory && !best->result.fits_memory) ||
        (result.fits_memory == best->result.fits_memory && result.step_time_micros < best->result.step_time_micros);
    if (!is_better) continue;
    best = Ordered{.graph = std::move(ordered),
                   .placement = renamed,
                   .order = order,
                   .of_file = placement,
                   .result = result,
                   .is_proved = result.step_time_micros <= found.bound_micros * (1 + 1e-9)};
  }
  return *std::move(best);
}

int PlaceWithOrder(const PlaceOptions& options, const Graph& graph, const Cluster& cluster, const CostTable& costs,
                   const Simulator& simulator, const std::optional<Placement>& searched,
                   const std::function<bool()>& stop) {
  const Ordered best = SearchOrder(options, graph, cluster, costs, simulator, searched, stop);
  if (!best.result.fits_memory) {
    PrintMessage(options.problem.graph.file + ": no placement with an order that fits was found");
    return kNotFound;
  }
  const LoadedCosts loaded = LoadCosts(options.problem, best.graph, cluster);
  StepReport report =
      MakeStepReport(best.graph, cluster, loaded.table, best.placement, options.problem.settings.engine, best.result);
  loaded.SetIn(&report);
  // The bounds of placements are those of first-come-first-served orders: here only the chain and the work hold.
  const Bounds simple = ComputeBounds(graph, cluster, costs);
  report.lower_bound_micros = simple.lower_bound_micros;
  report.lower_bound_method = simple.lower_bound_method;
  std::ostringstream text;
  if (options.show.json) {
    WriteResult(text, report);
  } else {
    PrintStepReport(text, report);
    if (best.is_proved) text << "\nproved: no placement with any order is faster\n";
  }
  std::vector<FileToWrite> files = {
      {options.output, [&](std::ostream& out) { WritePlacement(out, best.of_file, graph, cluster, best.order); }}};
  if (!options.show.timeline.empty()) {
    const Simulator ordered = MakeSimulator(options.problem, best.graph, cluster, loaded.table);
    const auto timeline = TimelineFile(options.show.timeline, ordered, best.graph, cluster, best.placement);
    files.insert(files.end(), timeline.begin(), timeline.end());
  }
  const bool output_is_taken = options.output == "-" || options.show.timeline == "-";
  if (!output_is_taken) files.push_back({"-", [&](std::ostream& out) { out << text.str(); }});
  WriteFiles(files);
  if (output_is_taken) PrintMessages(text.str());
  return kSuccess;
}

// Writes the best placement and what is known of it. With validation, the context's costs are the corrected ones.
int WriteAnswer(const PlaceOptions& options, const agents::ObjectiveContext& context, const LoadedCosts& loaded,
                const Placement& on_one, const SearchStop& stop, const experiments::PeriodicValidation* validation,
                agents::SearchResult* result) {
  const std::unique_ptr<const agents::Objective> objective = MakeObjective(options.problem, context);
  std::vector<FileToWrite> files;
  if (!options.policy_output.empty()) {
    files.push_back({options.policy_output, [&](std::ostream& out) { out << result->policy; }});
  }
  if (!result->best) {
    WriteFiles(files);
    const int status = PrintThatNothingFits(options, *result);
    return stop.Interrupted() ? SignalStatus(stop.signal()) : status;
  }
  const Placement& best = *result->best;
  files.push_back(
      {options.output, [&](std::ostream& out) { WritePlacement(out, best, context.graph, context.cluster); }});
  const std::vector<FileToWrite> timeline = TimelineOf(options, context, best);
  files.insert(files.end(), timeline.begin(), timeline.end());
  StepReport report = objective->Report(best, result->best_result);
  loaded.SetIn(&report);
  SetLowerBound(context, &report);
  if (result->is_proved && report.lower_bound_micros < report.step_time_micros) {
    report.lower_bound_micros = report.step_time_micros;
    report.lower_bound_method = "branch and bound";
  }
  report.one_device_micros = result->one_device_micros;
  const std::string summary = Summary(options, *result, report, objective->evaluator().Run(on_one), validation);
  const bool output_is_taken = options.output == "-" || options.show.timeline == "-";
  if (!output_is_taken) files.push_back({"-", [&](std::ostream& out) { out << summary; }});
  WriteFiles(files);
  if (output_is_taken) PrintMessages(summary);
  return kSuccess;
}

int Run(const PlaceOptions& options) {
  const ProblemOptions& problem = options.problem;
  if (IsInference(problem, options.inference)) {
    const bool has_more =
        options.order || !options.checkpoint.empty() || !options.policy.empty() || !options.policy_output.empty();
    RefuseSearchOptions(problem, has_more);
    return PlaceInference(problem, options.inference, options.output, options.show);
  }
  CheckProblem(problem);
  std::vector<std::string> inputs = InputFiles(problem);
  inputs.push_back(options.policy);
  CheckFiles(inputs, {options.output, options.show.timeline, options.checkpoint, options.policy_output});
  if (options.show.json && (options.output == "-" || options.show.timeline == "-")) {
    throw InputError("-", "is used for both a file and --json (one may be standard output)");
  }
  CheckMaxError(problem, options.max_error);
  if (options.order && problem.settings.Validates()) {
    throw InputError("--order", "is searched with simulated times alone (no --validate-every)");
  }
  if (options.checkpoint == "-") throw InputError("--checkpoint", "must be a file (it is read and written)");
  const Graph graph = experiments::LoadGraph(problem.graph);
  RepeatUnexplained(graph, problem.graph.file);
  const Cluster cluster = LoadCluster(problem);
  const LoadedCosts loaded = LoadCosts(problem, graph, cluster);
  const CostTable& costs = loaded.table;
  const Simulator simulator = MakeSimulator(problem, graph, cluster, costs);
  const std::optional<ScheduleChoice> schedule = LoadSchedule(problem.settings, agents::Door::kCommandLine);
  if (options.order) {
    const std::string& objective = problem.settings.objective;
    if (schedule || (!objective.empty() && objective != "step_time")) {
      throw InputError("--order", "is for the step time of one batch (no --schedule, --objective step_time)");
    }
    if (!graph.collectives().empty())
      throw InputError("--order", problem.graph.file + " has collectives, which order themselves");
  }
  agents::SearchSpec spec = MakeSearchSpec(problem, schedule, graph, cluster, costs);
  if (!options.policy.empty() || !options.policy_output.empty()) {
    if (!agents::MakeAgent(spec.agent, spec.agent_options, {})->HasPolicy()) {
      throw InputError(options.policy.empty() ? "--policy-out" : "--policy",
                       fmt::format("agent {} has no policy ({})", spec.agent, fmt::join(AgentsWithPolicies(), ", ")));
    }
  }
  spec.given_start = FindStart(problem, schedule, graph, cluster, costs, simulator);
  const Placement on_one = OnOneDevice(graph, cluster, costs, simulator);
  const agents::ObjectiveContext context = {.graph = graph,
                                            .cluster = cluster,
                                            .costs = costs,
                                            .settings = spec,
                                            .schedule = schedule,
                                            .simulator = &simulator};
  const std::unique_ptr<const agents::Objective> objective = MakeObjective(problem, context);
  const Evaluator& evaluator = objective->evaluator();
  if (spec.seconds > 0 && spec.Budget(1) == 0) {
    if (!options.checkpoint.empty()) {
      throw InputError("--checkpoint", "needs --evaluations beside --seconds (a resumed search has the same budget)");
    }
    spec.evaluations = EvaluationsIn(spec.seconds, spec.threads, agents::FindAgent(spec.agent), evaluator, on_one);
  }
  spec.simulator = &simulator;
  std::optional<experiments::ClusterHardware> hardware;
  std::optional<experiments::PeriodicValidation> validation;
  if (spec.Validates()) {
    hardware.emplace(graph, cluster, experiments::HardwareOptionsOf(spec));
    validation.emplace(graph, cluster, costs, simulator.options(), spec.validate_every,
                       experiments::RealHardware(hardware->runner()));
    spec.validation = &*validation;
  }
  spec.checkpoint = options.checkpoint;
  spec.policy = options.policy;
  agents::SearchResult result;
  SearchStop stop(spec.seconds);
  spec.stop = [&stop] { return stop(); };
  {
    Progress progress(spec.agent);
    result = agents::RunSearch(agents::WithNamedPlacements(spec),
                               [&progress](const agents::SearchProgress& now) { progress.Show(ProgressOf(now)); });
  }
  if (stop.Interrupted()) {
    PrintMessage(fmt::format("stopped after {} by {}: {}", Counted(result.evaluations, "evaluation"), stop.Cause(),
                             result.best ? "the best so far is kept" : "there is nothing to keep"));
  }
  if (const std::string warning = agents::RewardWarning(result); !warning.empty()) PrintMessage("warning: " + warning);
  if (result.was_stopped && options.show.json) PrintMessage("warning: " + result.note);
  if (!stop.Interrupted() && !options.show.json) {
    stop.Start();
    result.single_ops_micros = SingleOpsMicros(spec, result);
  }
  if (options.order) {
    return PlaceWithOrder(options, graph, cluster, costs, simulator, result.best, [&stop] { return stop(); });
  }
  if (!validation) return WriteAnswer(options, context, loaded, on_one, stop, nullptr, &result);
  const Simulator corrected(graph, validation->cluster(), validation->costs(), simulator.options());
  const agents::ObjectiveContext as_corrected = {.graph = graph,
                                                 .cluster = validation->cluster(),
                                                 .costs = validation->costs(),
                                                 .settings = spec,
                                                 .schedule = schedule,
                                                 .simulator = &corrected};
  const int status = WriteAnswer(options, as_corrected, loaded, on_one, stop, &*validation, &result);
  return status == kSuccess ? StatusOfValidation(*validation, options.max_error, problem.graph.file) : status;
}

}  // namespace

Command AddPlace(CLI::App& app) {
  CLI::App* const command =
      app.add_subcommand("place", "Search for a placement with a short step time, or a high throughput");
  auto options = std::make_shared<PlaceOptions>();
  AddGraphOption(*command, &options->problem);
  AddClusterOptions(*command, &options->problem);
  AddGpusOption(*command, &options->problem);
  AddSearchOptions(*command, &options->problem);
  command
      ->add_option("--checkpoint", options->checkpoint,
                   "Resume from this file, if it exists, and save to it periodically")
      ->type_name("FILE");
  command
      ->add_option("--policy", options->policy,
                   "Apply this policy, written by --policy-out, without training it (--set fine_tune=true trains it)")
      ->type_name("FILE");
  command->add_option("--policy-out", options->policy_output, "Write the final policy of a learning agent")
      ->type_name("FILE");
  command->add_flag("--order", options->order,
                    "Also search the order in which each device starts its ops, and write it into the placement");
  AddMaxErrorOption(*command, &options->max_error);
  AddCostOptions(*command, &options->problem);
  command->add_option("-o,--output", options->output, "placement.json to write, if a placement that fits was found")
      ->required()
      ->type_name("FILE");
  AddShowOptions(*command, &options->show);
  AddInferenceOptions(*command, &options->inference);
  return {command, [options] { return Run(*options); }};
}

}  // namespace emplace::tools
