#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agents/agent.h"
#include "agents/bounds/lower_bound.h"
#include "agents/named_placement.h"
#include "agents/objective.h"
#include "agents/python/python_agent.h"
#include "agents/search.h"
#include "agents/throughput/stage_costs.h"
#include "experiments/plan/hardware_choice.h"
#include "experiments/validation/periodic_validation.h"
#include "sim/base/check.h"
#include "sim/base/exit_status.h"
#include "sim/base/file_io.h"
#include "sim/base/human_readable.h"
#include "sim/base/markup.h"
#include "sim/base/table.h"
#include "sim/base/terminal.h"
#include "sim/bounds.h"
#include "sim/formats/report_text.h"
#include "sim/formats/result_json.h"
#include "sim/placement.h"
#include "tools/cli/commands.h"
#include "tools/cli/hardware.h"
#include "tools/cli/numbers.h"
#include "tools/cli/problem.h"
#include "tools/cli/search.h"

namespace emplace::tools {
namespace {

struct CompareOptions {
  ProblemOptions problem;
  std::vector<std::string> agents = {"all"};
  std::vector<std::size_t> gpus;
  bool json = false;
  bool csv = false;
  std::vector<std::string> outputs;  // files: .csv, .md, .tex or .json
  std::string placements;            // a folder
  std::optional<double> max_error;   // percent
};

// The result of one agent on one cluster.
struct Cell {
  std::string agent;
  std::string costs;         // source of op times
  std::string costs_detail;  // as in StepReport
  std::optional<std::size_t> gpus;
  std::size_t evaluations = 0;
  std::size_t groups = 0;
  std::optional<agents::LowerBound> lower_bound;
  std::optional<StepReport> report;  // none: no placement that fits was found
  std::optional<double> overflow_bytes;
  std::optional<double> one_device_micros;  // everything on one accelerator where it fits
  bool worse_than_one_device = false;
  std::optional<Placement> best = {};
  std::optional<double> single_ops_micros = {};  // of the best agent, where modules move whole
  std::string stopped = {};                      // why the agent was stopped, if it did not respond
  std::string placement = {};                    // placement.json of the best; "": not asked for, or none
  // With --validate-every, where times of the report are corrected ones:
  std::string validation_text = {};
  nlohmann::ordered_json validation_json = {};
  int status = kSuccess;  // StatusOfValidation

  double step_micros() const { return report ? report->step_time_micros : std::numeric_limits<double>::infinity(); }
};

bool All(const CompareOptions& options) { return options.agents == std::vector<std::string>{"all"}; }

void CheckAgents(const CompareOptions& options) {
  if (All(options)) return;
  for (const std::string& name : options.agents) WithLocation("--agents", [&] { agents::FindAgent(name); });
}

// "all": every agent that supports this cluster.
std::vector<std::string> ChosenAgents(const CompareOptions& options, const Cluster& cluster) {
  if (!All(options)) return options.agents;
  std::vector<std::string> all;
  for (const agents::AgentEntry& entry : agents::AllAgents()) {
    if (!agents::RunsOn(entry, cluster)) {
      PrintMessage(fmt::format("{}: left out, cluster {} has no CPU", entry.name, cluster.name()));
    } else {
      all.emplace_back(entry.name);
    }
  }
  return all;
}

std::string PlacementPath(const CompareOptions& options, std::string_view agent, std::optional<std::size_t> gpus) {
  return fmt::format("{}/{}{}.json", options.placements, agent, gpus ? fmt::format("-{}gpus", *gpus) : "");
}

void KeepPlacement(const CompareOptions& options, const Graph& graph, const Cluster& cluster,
                   const Placement& placement, Cell* cell) {
  if (options.placements.empty()) return;
  std::ostringstream text;
  WritePlacement(text, placement, graph, cluster);
  cell->placement = std::move(text).str();
}

// The problem of the agents for one number of accelerators.
struct Instance {
  const ProblemOptions& problem;
  const Graph& graph;
  const Cluster& cluster;
  const LoadedCosts& loaded;
  const Simulator& simulator;
  const std::optional<ScheduleChoice>& schedule;
  std::optional<agents::LowerBound> lower_bound;  // bound for every placement; none: reports have their own
  std::optional<Placement> start;
};

void SetValidation(const CompareOptions& options, const experiments::PeriodicValidation& validation,
                   const agents::SearchResult& result, Cell* cell) {
  std::ostringstream text;
  PrintValidation(text, validation, result.times.simulator);
  cell->validation_text = std::move(text).str();
  cell->validation_json = ValidationJson(validation, result.times.simulator);
  cell->status = StatusOfValidation(validation, options.max_error, cell->agent);
}

Cell Try(const CompareOptions& options, const Instance& instance, const std::string& agent, SearchStop* stop) {
  const auto& [problem, graph, cluster, loaded, simulator, schedule, lower_bound, start] = instance;
  const CostTable& costs = loaded.table;
  agents::SearchSpec spec = MakeSearchSpec(problem, schedule, graph, cluster, costs);
  spec.agent = agent;
  const std::unique_ptr<const agents::Objective> objective = MakeObjective(problem, {.graph = graph,
                                                                                     .cluster = cluster,
                                                                                     .costs = costs,
                                                                                     .settings = spec,
                                                                                     .schedule = schedule,
                                                                                     .simulator = &simulator});
  spec.simulator = &simulator;
  const agents::AgentEntry& entry = agents::FindAgent(agent);
  if (entry.searches()) {
    spec.given_start = start;
    if (spec.seconds > 0 && spec.Budget(1) == 0) {
      spec.evaluations = EvaluationsIn(spec.seconds, spec.threads, entry, objective->evaluator(),
                                       OnOneDevice(graph, cluster, costs, simulator));
    }
  } else {
    spec.evaluations = spec.episodes = 0;  // one placement needs no budget
  }
  std::optional<experiments::ClusterHardware> hardware;
  std::optional<experiments::PeriodicValidation> validation;
  if (spec.Validates()) {
    hardware.emplace(graph, cluster, experiments::HardwareOptionsOf(spec));
    validation.emplace(graph, cluster, costs, simulator.options(), spec.validate_every,
                       experiments::RealHardware(hardware->runner()));
    spec.validation = &*validation;
  }
  stop->Start();
  spec.stop = [stop] { return (*stop)(); };
  Progress progress(problem.cluster.gpus ? fmt::format("{} on {}", agent, *problem.cluster.gpus) : agent);
  const agents::SearchResult result =
      agents::RunSearch(agents::WithNamedPlacements(spec),
                        [&progress](const agents::SearchProgress& now) { progress.Show(ProgressOf(now)); });
  if (result.was_stopped) PrintMessage("warning: " + result.note);
  Cell cell{.agent = agent,
            .costs = loaded.text,
            .costs_detail = loaded.detail,
            .gpus = problem.cluster.gpus,
            .evaluations = result.evaluations,
            .groups = result.num_groups,
            .lower_bound = lower_bound,
            .report = std::nullopt,
            .overflow_bytes = result.smallest_overflow_bytes,
            .one_device_micros = result.one_device_micros,
            .worse_than_one_device = result.WorseThanOneDevice(),
            .stopped = result.was_stopped ? result.note : ""};
  if (validation) SetValidation(options, *validation, result, &cell);
  if (result.best && validation) {
    cell.report = MakeStepReport(graph, validation->cluster(), validation->costs(), *result.best, spec.engine,
                                 result.best_result);
    cell.lower_bound.reset();  // of the uncorrected times
    KeepPlacement(options, graph, cluster, *result.best, &cell);
    cell.best = result.best;
  } else if (result.best) {
    cell.report = objective->Report(*result.best, result.best_result);
    if (lower_bound && !lower_bound->method.empty()) {
      cell.report->lower_bound_micros = lower_bound->micros;
      cell.report->lower_bound_method = lower_bound->method;
    }
    KeepPlacement(options, graph, cluster, *result.best, &cell);
    cell.best = result.best;
  }
  return cell;
}

// Sets what moving single ops gives from the best placement of the cells of one instance, in as many evaluations as the
// agent with the most has taken.
void SetSingleOps(const Instance& instance, std::span<Cell> cells, SearchStop* stop) {
  const auto best = std::ranges::min_element(cells, {}, &Cell::step_micros);
  if (best == cells.end()) return;
  agents::SearchSpec spec =
      MakeSearchSpec(instance.problem, instance.schedule, instance.graph, instance.cluster, instance.loaded.table);
  spec.simulator = &instance.simulator;
  agents::SearchResult result;
  result.best = best->best;
  result.evaluations = std::ranges::max(cells, {}, &Cell::evaluations).evaluations;
  stop->Start();
  spec.stop = [stop] { return (*stop)(); };
  best->single_ops_micros = SingleOpsMicros(spec, result);
}

// The best step time among the agents on the same number of accelerators.
double BestMicros(const std::vector<Cell>& cells, const std::optional<std::size_t>& gpus) {
  double best = std::numeric_limits<double>::infinity();
  for (const Cell& cell : cells) {
    if (cell.gpus == gpus) best = std::min(best, cell.step_micros());
  }
  return best;
}

std::string BusiestDevice(const StepReport& report) {
  const auto load = [](const StepReport::DeviceRow& row) { return row.busy_micros + row.crossing_micros; };
  const auto busiest = std::max_element(report.devices.begin(), report.devices.end(),
                                        [&](const auto& a, const auto& b) { return load(a) < load(b); });
  return busiest->name;
}

const agents::ObjectiveEntry& ObjectiveOf(const CompareOptions& options) {
  return agents::ObjectiveOf(options.problem.settings);
}

Table MakeTable(const CompareOptions& options, const std::vector<Cell>& cells) {
  Table table({"gpus", "agent", "groups", "evaluations", fmt::format("{} ms", ObjectiveOf(options).metric),
               "x lower bound", "gap to best %", "busiest", "busy %", "peak memory MiB", "tensors sent", "fits"});
  for (const Cell& cell : cells) {
    std::vector<std::string> row = {cell.gpus ? std::to_string(*cell.gpus) : "all",
                                    cell.agent + (cell.stopped.empty() ? "" : " (stopped)"),
                                    std::to_string(cell.groups), std::to_string(cell.evaluations)};
    if (!cell.report) {
      row.insert(row.end(), {"-", "-", "-", "-", "-", "-", "-", "no"});
      table.Add(row);
      continue;
    }
    const StepReport& report = *cell.report;
    const double step = report.step_time_micros;
    const double best = BestMicros(cells, cell.gpus);
    const auto ratio = [](double a, double b) { return b > 0 ? a / b : 1; };
    row.insert(row.end(),
               {fmt::format("{:.3f}", step / 1000), fmt::format("{:.3f}", ratio(step, report.lower_bound_micros)),
                fmt::format("{:.1f}", 100 * (ratio(step, best) - 1)), BusiestDevice(report),
                fmt::format("{:.1f}", 100 * ratio(report.busiest_device_micros, step)),
                fmt::format("{:.1f}", static_cast<double>(LargestPeak(report).count) / 1048576),
                std::to_string(report.tensors_sent), "yes"});
    table.Add(row);
  }
  return table;
}

void PrintJson(std::ostream& out, const CompareOptions& options, const std::vector<Cell>& cells) {
  const agents::SearchSettings settings = Resolved(options.problem.settings);
  const agents::ObjectiveEntry& objective = ObjectiveOf(options);
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const Cell& cell : cells) {
    nlohmann::ordered_json row = {{"agent", cell.agent}};
    if (cell.gpus) row["gpus"] = *cell.gpus;
    row["groups"] = cell.groups;
    row["evaluations"] = cell.evaluations;
    if (!cell.stopped.empty()) row["stopped"] = cell.stopped;
    if (cell.lower_bound) {
      row[std::string(objective.bound_field)] = cell.lower_bound->micros;
      if (!cell.lower_bound->method.empty()) {
        row["lower_bound_method"] = cell.lower_bound->method;
        row["best_bound_us"] = cell.lower_bound->micros;  // the same under its earlier name
      }
    } else if (cell.report) {
      row[std::string(objective.bound_field)] = cell.report->lower_bound_micros;
      row["lower_bound_method"] = cell.report->lower_bound_method;
    }
    row["fits_memory"] = cell.report.has_value();
    if (cell.report) {
      row[std::string(objective.value_field)] = cell.report->step_time_micros;
      row["busiest_device"] = BusiestDevice(*cell.report);
      row["busiest_device_us"] = cell.report->busiest_device_micros;
      row["peak_bytes"] = LargestPeak(*cell.report).count;
      row["tensors_sent"] = cell.report->tensors_sent;
    } else if (cell.overflow_bytes) {
      row["overflow_bytes"] = *cell.overflow_bytes;
    }
    if (!cell.validation_json.is_null()) row["validation"] = cell.validation_json;
    if (cell.one_device_micros) {
      row["one_device_us"] = *cell.one_device_micros;
      row["worse_than_one_device"] = cell.worse_than_one_device;
    }
    rows.push_back(std::move(row));
  }
  nlohmann::ordered_json comparison = {{"schema", "emplace.comparison"},
                                       {"version", 1},
                                       {"graph", options.problem.graph.file},
                                       {"cluster", options.problem.cluster.name},
                                       {"engine", settings.engine},
                                       {"costs", cells.empty() ? "" : cells.front().costs},
                                       {"seed", settings.seed}};
  if (agents::IsSet(agents::FindSetting("objective"), settings)) comparison["objective"] = settings.objective;
  if (!settings.schedule.empty()) comparison["schedule"] = settings.schedule;
  if (!cells.empty() && !cells.front().costs_detail.empty()) comparison["costs_detail"] = cells.front().costs_detail;
  comparison["results"] = std::move(rows);
  out << comparison.dump(1) << '\n';
}

// "gpus 2: " where the cells are for several numbers of accelerators.
std::string GpusText(const std::vector<Cell>& cells, const std::optional<std::size_t>& gpus) {
  const bool differ = std::ranges::any_of(cells, [&](const Cell& cell) { return cell.gpus != gpus; });
  return differ && gpus ? fmt::format("gpus {}: ", *gpus) : "";
}

// One line for each number of accelerators with agents that found nothing as good as one device, where everything fits.
std::vector<std::string> OneDeviceNotes(const std::vector<Cell>& cells) {
  std::vector<std::string> notes;
  for (std::size_t first = 0; first < cells.size(); ++first) {
    const Cell& cell = cells[first];
    const auto same = [&](const Cell& other) { return other.gpus == cell.gpus; };
    if (std::find_if(cells.begin(), cells.end(), same) - cells.begin() != static_cast<std::ptrdiff_t>(first)) continue;
    std::string agents;
    std::optional<double> micros;
    for (const Cell& other : cells) {
      if (!same(other) || !other.worse_than_one_device) continue;
      agents += (agents.empty() ? "" : ", ") + other.agent;
      micros = std::min(micros.value_or(*other.one_device_micros), *other.one_device_micros);
    }
    if (agents.empty()) continue;
    notes.push_back(fmt::format("{}worse than everything on one device, which takes {} and fits: {}",
                                GpusText(cells, cell.gpus), HumanReadableMicros(*micros), agents));
  }
  return notes;
}

// What is below the table.
std::vector<std::string> Notes(const std::vector<Cell>& cells) {
  std::vector<std::string> notes = OneDeviceNotes(cells);
  for (const Cell& cell : cells) {
    if (!cell.single_ops_micros) continue;
    notes.push_back(GpusText(cells, cell.gpus) + SingleOpsText(fmt::format("whole modules, placed by {},", cell.agent),
                                                               cell.step_micros(), *cell.single_ops_micros));
  }
  return notes;
}

// Which costs a default has chosen, and how many ops curves time; "" if the user named others.
std::string DefaultCostsLine(const CompareOptions& options, const std::vector<Cell>& cells) {
  const ProblemOptions& problem = options.problem;
  if (cells.empty()) return "";
  const bool is_named = !problem.costs.model.empty() || !problem.costs.profile.empty();
  if (is_named && cells.front().costs_detail.empty()) return "";
  return HeadLine(problem.graph.file, problem.cluster.name, problem.settings.engine, cells.front().costs,
                  cells.front().costs_detail);
}

enum class Format : std::uint8_t { kText, kCsv, kMarkdown, kLatex, kJson };

Format FormatOf(const std::string& path) {
  if (path.ends_with(".csv")) return Format::kCsv;
  if (path.ends_with(".md")) return Format::kMarkdown;
  if (path.ends_with(".tex")) return Format::kLatex;
  if (path.ends_with(".json")) return Format::kJson;
  throw InputError(path, "has no known format (a name that ends in .csv, .md, .tex or .json)");
}

void Print(std::ostream& out, Format format, const CompareOptions& options, const std::vector<Cell>& cells) {
  switch (format) {
    case Format::kText:
      if (const std::string line = DefaultCostsLine(options, cells); !line.empty()) out << line << "\n\n";
      MakeTable(options, cells).PrintText(out);
      for (const std::string& note : Notes(cells)) out << '\n' << note << '\n';
      for (const Cell& cell : cells) {
        if (!cell.validation_text.empty()) out << '\n' << cell.agent << ": " << cell.validation_text;
      }
      return;
    case Format::kCsv:
      return MakeTable(options, cells).PrintCsv(out);
    case Format::kMarkdown:
      MakeTable(options, cells).PrintMarkdown(out);
      for (const std::string& note : Notes(cells)) out << '\n' << MarkdownText(note) << '\n';
      return;
    case Format::kLatex:
      MakeTable(options, cells).PrintLatex(out);
      for (const std::string& note : Notes(cells)) out << '\n' << LatexText(note) << '\n';
      return;
    case Format::kJson:
      return PrintJson(out, options, cells);
  }
}

int Run(const CompareOptions& options) {
  CheckProblem(options.problem);
  CheckMaxError(options.problem, options.max_error);
  CheckFiles(InputFiles(options.problem), options.outputs);
  if (!options.placements.empty() && !std::filesystem::is_directory(options.placements)) {
    throw InputError("--placements", fmt::format("there is no folder {}", options.placements));
  }
  if (options.json && options.csv) throw InputError("", "--json and --csv exclude each other (one of them)");
  if (!options.placements.empty()) CheckCanBeWritten(PlacementPath(options, "placement", std::nullopt));
  for (const std::string& path : options.outputs) FormatOf(path);
  CheckAgents(options);
  const Graph graph = experiments::LoadGraph(options.problem.graph);
  std::vector<std::optional<std::size_t>> sizes(options.gpus.begin(), options.gpus.end());
  if (sizes.empty()) sizes.emplace_back();
  for (const std::size_t gpus : options.gpus) {
    if (sizes.size() == 1) break;
    ProblemOptions problem = options.problem;
    problem.cluster.gpus = gpus;
    LoadCluster(problem);  // refuses a number before the first search
  }
  std::vector<Cell> cells;
  std::string unanswered;  // the last error of an agent in Python, which never answered or raised
  const std::optional<ScheduleChoice> schedule = LoadSchedule(options.problem.settings, agents::Door::kCommandLine);
  SearchStop stop(options.problem.settings.seconds);
  for (const std::optional<std::size_t>& gpus : sizes) {
    ProblemOptions problem = options.problem;
    problem.cluster.gpus = gpus;
    const Cluster cluster = LoadCluster(problem);
    const LoadedCosts loaded = LoadCosts(problem, graph, cluster);
    const CostTable& costs = loaded.table;
    const Simulator simulator = MakeSimulator(problem, graph, cluster, costs);
    const agents::ObjectiveContext context = {.graph = graph,
                                              .cluster = cluster,
                                              .costs = costs,
                                              .settings = problem.settings,
                                              .schedule = schedule,
                                              .simulator = &simulator};
    Instance instance{problem, graph, cluster, loaded, simulator, schedule, {}, {}};
    if (const auto bound = ObjectiveOf(options).bound) instance.lower_bound = bound(context);
    instance.start = FindStart(problem, schedule, graph, cluster, costs, simulator);
    const std::size_t first = cells.size();
    for (const std::string& agent : ChosenAgents(options, cluster)) {
      if (stop.Interrupted()) break;
      try {
        cells.push_back(Try(options, instance, agent, &stop));
      } catch (const agents::AgentDoesNotAnswer& error) {
        unanswered = error.what();
        PrintMessage(fmt::format("left out: {}", unanswered));
      } catch (const InputError& error) {
        const bool may_refuse = All(options) && agents::FindAgent(agent).refuses_some;
        if (!may_refuse && !agents::IsPythonAgent(agent)) throw;
        if (!may_refuse) unanswered = error.what();
        PrintMessage(fmt::format("left out: {}", error.what()));
      }
    }
    if (!stop.Interrupted() && !options.json && !options.csv && !problem.settings.Validates())
      SetSingleOps(instance, std::span(cells).subspan(first), &stop);
  }
  if (cells.empty() && !unanswered.empty()) return kBadInput;
  if (stop.Interrupted()) {
    PrintMessage(fmt::format("stopped by {}: the table has the agents that were done, and the one that was searching",
                             stop.Cause()));
  }
  std::vector<FileToWrite> files;
  for (const Cell& cell : cells) {
    if (cell.placement.empty()) continue;
    files.push_back(
        {PlacementPath(options, cell.agent, cell.gpus), [&cell](std::ostream& out) { out << cell.placement; }});
  }
  for (const std::string& path : options.outputs) {
    files.push_back({path, [&](std::ostream& out) { Print(out, FormatOf(path), options, cells); }});
  }
  const Format format = options.json ? Format::kJson : options.csv ? Format::kCsv : Format::kText;
  files.push_back({"-", [&](std::ostream& out) { Print(out, format, options, cells); }});
  std::cout.flush();
  WriteFiles(files);
  if (std::ranges::any_of(cells, [](const Cell& cell) { return cell.status != kSuccess; })) return kNotFound;
  if (std::any_of(cells.begin(), cells.end(), [](const Cell& cell) { return cell.report.has_value(); }))
    return kSuccess;
  if (stop.Interrupted()) return SignalStatus(stop.signal());
  std::cout.flush();
  PrintMessage(fmt::format("{}: no agent found a placement that fits", options.problem.graph.file));
  return kNotFound;
}

}  // namespace

Command AddCompare(CLI::App& app) {
  CLI::App* const command = app.add_subcommand("compare", "Place one graph with several agents, and print a table");
  auto options = std::make_shared<CompareOptions>();
  AddGraphOption(*command, &options->problem);
  AddClusterOptions(*command, &options->problem);
  command
      ->add_option("--gpus", options->gpus,
                   "Use the first N accelerators and every CPU; with several N, repeat everything for each")
      ->delimiter(',')
      ->type_name("N,N")
      ->transform(IntegerFrom(0));
  command
      ->add_option("--agents", options->agents,
                   "Agents of `emplace list agents`, or Python classes, MODULE:CLASS (default: all)")
      ->delimiter(',')
      ->type_name("NAME,NAME");
  AddSearchOptions(*command, &options->problem, {"agent", "set"});
  AddMaxErrorOption(*command, &options->max_error);
  AddCostOptions(*command, &options->problem);
  command->add_flag("--json", options->json, "Print as JSON (emplace.comparison)");
  command->add_flag("--csv", options->csv, "Print as CSV");
  command
      ->add_option("-o,--output", options->outputs,
                   "Also write the table to files: .csv, .md, .tex (LaTeX, with the package booktabs) or .json")
      ->type_name("FILE");
  command->add_option("--placements", options->placements, "Existing folder for the best placement of each agent")
      ->type_name("DIR");
  return {command, [options] { return Run(*options); }};
}

}  // namespace emplace::tools
