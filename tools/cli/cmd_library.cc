#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iostream>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/library/instances.h"
#include "experiments/library/known_results.h"
#include "experiments/library/plans/plan_cells.h"
#include "sim/base/check.h"
#include "sim/base/exit_status.h"
#include "sim/base/file_io.h"
#include "sim/base/human_readable.h"
#include "sim/base/json_text.h"
#include "sim/base/progress.h"
#include "sim/base/table.h"
#include "sim/base/terminal.h"
#include "sim/formats/cluster_yaml.h"
#include "sim/formats/graph_json.h"
#include "sim/placement.h"
#include "tools/cli/commands.h"
#include "tools/cli/library_plans.h"
#include "tools/cli/library_score.h"
#include "tools/cli/numbers.h"
#include "tools/cli/problem.h"

namespace emplace::tools {
namespace {

using experiments::KnownResult;
using experiments::LibraryInstance;
using experiments::LibraryProblem;
using experiments::Tier;
using Json = nlohmann::ordered_json;

std::string RecipeText(const experiments::LibraryGraph& graph) {
  std::string text = !graph.synthetic.empty() ? "synthetic " + graph.synthetic
                     : !graph.dataset.empty() ? fmt::format("{} {} of seed {}", graph.dataset, graph.index, graph.seed)
                                              : graph.model;
  for (const auto& [key, value] : graph.set) text += fmt::format(" {}={}", key, value);
  return text;
}

std::string ClusterText(const experiments::LibraryCluster& cluster) {
  std::string text = cluster.name;
  if (cluster.gpus) text += fmt::format(", {} accelerators", *cluster.gpus);
  if (!cluster.devices.empty()) text += fmt::format(", {} devices", cluster.devices.size());
  if (cluster.memory_kb) text += fmt::format(", {} kB each", *cluster.memory_kb);
  return text;
}

double Milliseconds(std::int64_t nanos) { return static_cast<double>(nanos) / 1e6; }

std::string PercentText(double percent) {
  return percent == std::numeric_limits<double>::infinity() ? "-" : fmt::format("{:.2f}", percent);
}

// Adds what is known of an instance; nulls if nothing is.
void AddKnown(const KnownResult* known, Json* row) {
  if (known == nullptr) {
    for (const char* const key :
         {"step_time_ns", "lower_bound_ns", "status", "finder", "method", "date", "bound_method"}) {
      (*row)[key] = nullptr;
    }
    return;
  }
  (*row)["step_time_ns"] = known->step_time_ns;
  (*row)["lower_bound_ns"] = known->lower_bound_ns;
  (*row)["status"] = NameOf(known->status);
  (*row)["finder"] = known->finder;
  (*row)["method"] = known->method;
  (*row)["date"] = known->date;
  (*row)["bound_method"] = known->bound_method;
}

struct ListOptions {
  std::string tier;
  std::string data;
  bool json = false;
};

// How many instances of each tier have which status.
void PrintSummary(const std::vector<LibraryInstance>& instances) {
  Table table({"tier", "ops", "instances", "proved", "bounded", "open", "nothing known"});
  for (const auto& [tier, name] : EnumNames<Tier>::kNames) {
    std::size_t all = 0;
    std::array<std::size_t, 4> by_status{};  // the last: nothing known
    for (const LibraryInstance& instance : instances) {
      if (instance.tier != tier) continue;
      ++all;
      const KnownResult* known = experiments::FindKnownResult(instance.name);
      ++by_status[known == nullptr ? 3 : static_cast<std::size_t>(known->status)];
    }
    table.Add({std::string(name), fmt::format("up to {}", experiments::MostOps(tier)), std::to_string(all),
               std::to_string(by_status[0]), std::to_string(by_status[1]), std::to_string(by_status[2]),
               std::to_string(by_status[3])});
  }
  table.PrintText(std::cout);
}

int RunList(const ListOptions& options) {
  if (options.tier == experiments::kPlansTier) return ListPlanCells(options.data, options.json);
  if (!options.data.empty()) throw InputError("--data", "is of --tier plans");
  std::optional<Tier> only;
  if (!options.tier.empty()) only = WithLocation("--tier", [&] { return experiments::FindTier(options.tier); });
  Json rows = Json::array();
  Table table({"instance", "tier", "ops", "cluster", "best ms", "bound ms", "gap %", "status"});
  for (const LibraryInstance& instance : experiments::LibraryInstances()) {
    if (only && instance.tier != *only) continue;
    const KnownResult* known = experiments::FindKnownResult(instance.name);
    const auto shown = [known](auto text) { return known == nullptr ? std::string("-") : text(); };
    table.Add(
        {instance.name, std::string(NameOf(instance.tier)), std::to_string(instance.ops), ClusterText(instance.cluster),
         shown([&] { return fmt::format("{:.3f}", Milliseconds(known->step_time_ns)); }),
         shown([&] { return fmt::format("{:.3f}", Milliseconds(known->lower_bound_ns)); }),
         shown([&] { return PercentText(experiments::PercentAbove(known->step_time_ns, known->lower_bound_ns)); }),
         shown([&] { return std::string(NameOf(known->status)); })});
    Json row = {{"name", instance.name},
                {"tier", NameOf(instance.tier)},
                {"ops", instance.ops},
                {"graph", RecipeText(instance.graph)},
                {"cluster", ClusterText(instance.cluster)},
                {"costs", instance.costs},
                {"hash", instance.hash}};
    AddKnown(known, &row);
    rows.push_back(std::move(row));
  }
  if (options.json) {
    std::cout << Json{{"schema", "emplace.library_list"}, {"version", 1}, {"instances", rows}}.dump(1) << '\n';
    return kSuccess;
  }
  table.PrintText(std::cout);
  std::cout << '\n';
  PrintSummary(experiments::LibraryInstances());
  return kSuccess;
}

struct ShowInstanceOptions {
  std::string name;
  std::string graph_output;
  std::string cluster_output;
  std::string planted_output;
  std::string data;
  bool json = false;
};

// Whether the name is that of a cell of the tier plans: a table's name is in front of it.
bool IsPlanCell(std::string_view name) {
  return std::ranges::any_of(experiments::PlanTables(), [name](const experiments::PlanTable& table) {
    return name.starts_with(std::string(table.name) + "-");
  });
}

int RunShow(const ShowInstanceOptions& options) {
  if (IsPlanCell(options.name)) {
    for (const auto& [option, file] :
         {std::pair("--graph-out", options.graph_output), std::pair("--cluster-out", options.cluster_output),
          std::pair("--planted-out", options.planted_output)}) {
      if (!file.empty())
        throw InputError(option, fmt::format("is of a graph, and {} is a cell of plans", options.name));
    }
    return ShowPlanCell(options.data, options.name, options.json);
  }
  if (!options.data.empty()) throw InputError("--data", "is of --tier plans");
  const BusyLine busy("library show");
  CheckFiles({}, {options.graph_output, options.cluster_output, options.planted_output});
  const LibraryInstance& instance = experiments::FindInstance(options.name);
  const LibraryProblem problem = experiments::LoadInstance(instance);
  if (!options.planted_output.empty() && !problem.planted) {
    throw InputError("--planted-out", "instance " + instance.name + " was not built around a placement");
  }
  std::vector<FileToWrite> files;
  if (!options.graph_output.empty()) {
    files.push_back({options.graph_output, [&](std::ostream& out) { WriteGraph(out, problem.graph); }});
  }
  if (!options.cluster_output.empty()) {
    files.push_back({options.cluster_output, [&](std::ostream& out) { WriteCluster(out, problem.cluster); }});
  }
  if (!options.planted_output.empty()) {
    files.push_back({options.planted_output, [&](std::ostream& out) {
                       WritePlacement(out, *problem.planted, problem.graph, problem.cluster);
                     }});
  }
  WriteFiles(files);
  const std::string hash = experiments::InstanceHash(problem);
  const KnownResult* known = experiments::FindKnownResult(instance.name);
  if (options.json) {
    Json shown = {{"schema", "emplace.library_instance"},
                  {"version", 1},
                  {"name", instance.name},
                  {"tier", NameOf(instance.tier)},
                  {"ops", problem.graph.num_ops()},
                  {"tensors", problem.graph.num_tensors()},
                  {"graph", RecipeText(instance.graph)},
                  {"cluster", ClusterText(instance.cluster)},
                  {"devices", problem.cluster.num_devices()},
                  {"costs", instance.costs},
                  {"rules", experiments::kLibraryRules},
                  {"hash", instance.hash},
                  {"computed_hash", hash}};
    AddKnown(known, &shown);
    std::cout << shown.dump(1) << '\n';
    return kSuccess;
  }
  std::cout << fmt::format("instance    {}\ntier        {}\ngraph       {}: {} ops, {} tensors\n", instance.name,
                           NameOf(instance.tier), RecipeText(instance.graph), problem.graph.num_ops(),
                           problem.graph.num_tensors());
  std::cout << fmt::format("cluster     {}: {} devices\ncosts       {}\nrules       {}\nhash        {}{}\n",
                           ClusterText(instance.cluster), problem.cluster.num_devices(), instance.costs,
                           experiments::kLibraryRules, hash, hash == instance.hash ? "" : "   NOT THAT OF THE LIBRARY");
  if (known == nullptr) {
    std::cout << "best known  nothing\n";
    return kSuccess;
  }
  std::cout << fmt::format("best known  {} ns, by {} on {} ({})\nbound       {} ns ({})\n", known->step_time_ns,
                           known->finder, known->date, known->method, known->lower_bound_ns, known->bound_method);
  std::cout << fmt::format("status      {}, gap {} %\n", NameOf(known->status),
                           PercentText(experiments::PercentAbove(known->step_time_ns, known->lower_bound_ns)));
  return kSuccess;
}

struct CheckOptions {
  std::string placement;
  std::string instance;
  std::optional<std::uint64_t> step_time_ns;
  bool json = false;
};

int RunCheck(const CheckOptions& options) {
  const BusyLine busy("library check");
  const std::string text = ReadWholeFile(options.placement, InputKind::kPlacement);
  const auto of_file = [&]() -> const LibraryInstance& {
    std::istringstream in(text);
    return experiments::InstanceOfPlacement(in, options.placement);
  };
  const LibraryInstance& instance = options.instance.empty() ? of_file() : experiments::FindInstance(options.instance);
  const LibraryProblem problem = experiments::LoadFrozenInstance(instance);
  std::istringstream in(text);
  const Placement placement = ReadPlacement(in, options.placement, problem.graph, problem.cluster);
  const experiments::PlacementVerdict verdict =
      WithLocation(options.placement, [&] { return experiments::Judge(problem, placement); });
  const KnownResult* known = experiments::FindKnownResult(instance.name);
  const std::int64_t nanos = verdict.step_time_ns;
  const bool differs = options.step_time_ns && std::cmp_not_equal(*options.step_time_ns, nanos);
  const char* word = "does not fit";
  if (differs) {
    word = "differs";
  } else if (verdict.fits_memory) {
    word = known == nullptr || nanos < known->step_time_ns ? "record"
           : nanos == known->step_time_ns                  ? "equal"
                                                           : "behind";
  }
  const int status = verdict.fits_memory && !differs ? kSuccess : kNotFound;
  if (options.json) {
    Json result = {{"schema", "emplace.library_check"},
                   {"version", 1},
                   {"instance", instance.name},
                   {"hash", instance.hash},
                   {"verdict", word},
                   {"fits_memory", verdict.fits_memory},
                   {"step_time_ns", nanos}};
    result["best_known_ns"] = known == nullptr ? Json() : Json(known->step_time_ns);
    result["lower_bound_ns"] = known == nullptr ? Json() : Json(known->lower_bound_ns);
    if (known != nullptr) {
      result["behind_percent"] = experiments::PercentAbove(nanos, known->step_time_ns);
      result["gap_percent"] = experiments::PercentAbove(nanos, known->lower_bound_ns);
    }
    std::cout << result.dump(1) << '\n';
    return status;
  }
  std::cout << fmt::format("instance    {}\nstep time   {} ns\n", instance.name, nanos);
  for (const auto& [device, bytes] : verdict.overflows) {
    std::cout << fmt::format("memory      {} is over by {}\n", device, HumanReadable(bytes));
  }
  if (known != nullptr) {
    std::cout << fmt::format("best known  {} ns, by {} on {}\nbound       {} ns, gap {} %\n", known->step_time_ns,
                             known->finder, known->date, known->lower_bound_ns,
                             PercentText(experiments::PercentAbove(nanos, known->lower_bound_ns)));
  }
  if (differs) {
    std::cout << fmt::format("verdict     differs from the {} ns that were expected\n", *options.step_time_ns);
  } else if (!verdict.fits_memory) {
    std::cout << "verdict     does not fit in memory\n";
  } else if (known == nullptr) {
    std::cout << "verdict     a record: the first\n";
  } else if (nanos == known->step_time_ns) {
    std::cout << "verdict     equal to the best known\n";
  } else {
    const double percent = experiments::PercentAbove(nanos, known->step_time_ns);
    std::cout << (percent < 0 ? fmt::format("verdict     a record, {:.3f} % shorter than the best known\n", -percent)
                              : fmt::format("verdict     {:.3f} % behind the best known\n", percent));
  }
  return status;
}

constexpr const char* kDataHelp = "Folder with the measured tables of the tier plans (default: EMPLACE_REFERENCE_DATA)";

// What `library score` is given: an agent's options, or a planner's.
struct ScoreChoice {
  std::vector<std::string> names;
  ScoreOptions agent;
  PlanTierOptions plans;
  std::optional<std::uint64_t> queries;
  std::optional<double> timeout;
};

int RunScoreChoice(const ScoreChoice& choice) {
  const ScoreOptions& agent = choice.agent;
  const std::vector<std::string>& tiers = agent.tiers;
  if (std::ranges::find(tiers, experiments::kPlansTier) == tiers.end()) {
    for (const auto& [option, is_given] :
         {std::pair("--data", !choice.plans.data.empty()), std::pair("--queries", choice.queries.has_value()),
          std::pair("--timeout", choice.timeout.has_value()), std::pair("--json", choice.plans.json)}) {
      if (is_given) throw InputError(option, "is of planners (--tier plans)");
    }
    if (choice.names.size() != 1) {
      throw InputError("AGENT", fmt::format("has {} names (one; several with --tier plans)", choice.names.size()));
    }
    if (agent.output.empty()) throw InputError("--output", "is missing (a folder for the scores)");
    ScoreOptions options = agent;
    options.agent = choice.names[0];
    return RunScore(options);
  }
  if (tiers.size() > 1) throw InputError("--tier", "has plans beside others (plans alone: it is of planners)");
  const ScoreOptions usual;
  for (const auto& [option, is_given] :
       {std::pair("--set", !agent.settings.empty()), std::pair("--label", !agent.label.empty()),
        std::pair("--budgets", agent.budgets != usual.budgets), std::pair("--seconds", agent.seconds > 0),
        std::pair("--jobs", agent.jobs > 0)}) {
    if (is_given) throw InputError(option, "is of agents (--tier plans is of planners)");
  }
  PlanTierOptions options = choice.plans;
  options.planners = choice.names;
  options.cells = agent.instances;
  options.queries = choice.queries.value_or(options.queries);
  options.timeout = choice.timeout.value_or(options.timeout);
  options.seed = agent.seed;
  options.output = agent.output;
  return ScorePlanners(options);
}

void AddScoreOptions(CLI::App& score, ScoreChoice* choice) {
  ScoreOptions* const options = &choice->agent;
  score
      .add_option("agent", choice->names,
                  "Agent of `emplace list agents`; with --tier plans, planners of `emplace list planners`, "
                  "MODULE:FUNCTION of Python, or paths of programs")
      ->required()
      ->type_name("AGENT");
  AddSetOption(score, &options->settings);
  score.add_option("--label", options->label, "Name in tables (default: the agent and its options)")->type_name("TEXT");
  score
      .add_option("--tier", options->tiers,
                  "Only these tiers (default: all); or plans, which scores planners instead of an agent")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("TIER,TIER");
  score.add_option("--instances", options->instances, "Only these instances, or cells of plans (default: all)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("NAME,NAME");
  score
      .add_option("--budgets", options->budgets,
                  "Numbers of evaluations, with a separate search for each (default: 10,100,1000)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("N,N")
      ->transform(IntegerFrom(1, std::uint64_t{1} << 40U));
  score
      .add_option("--seconds", options->seconds,
                  "Also run a search with this time limit, whose result is in times.json (default: none)")
      ->type_name("S")
      ->transform(NumberFrom(0.001, 1000000));
  AddSeedOption(score, &options->seed, "Random seed (default: 1)");
  score
      .add_option("--jobs", options->jobs,
                  "Number of instances to run at once, which does not affect scores (default: one for each core)")
      ->type_name("N")
      ->transform(IntegerFrom(1, 1024));
  score.add_option("--data", choice->plans.data, kDataHelp)->type_name("DIR");
  score
      .add_option("--queries", choice->queries,
                  "With --tier plans: measurements that a planner may ask for in a cell (default: 10)")
      ->type_name("N")
      ->transform(IntegerFrom(0, 1000));
  score
      .add_option("--timeout", choice->timeout,
                  "With --tier plans: seconds that a planner may take for a proposal (default: 60)")
      ->type_name("S")
      ->transform(NumberFrom(0.001, 1000000));
  score.add_flag("--json", choice->plans.json, "With --tier plans: print as JSON (emplace.plan_scores)");
  score
      .add_option("-o,--output", options->output,
                  "Folder to write, created if it does not exist: AGENT/scores.json, AGENT/times.json, and index.html "
                  "with all searchers in the folder; needed but with --tier plans, which writes PLANNER/scores.json")
      ->type_name("DIR");
}

}  // namespace

Command AddLibrary(CLI::App& app) {
  CLI::App* const command = app.add_subcommand(
      "library", "Frozen placement problems with their best known results, and cells with measured plans");
  command->require_subcommand(1);
  CLI::App* const list = command->add_subcommand("list", "Show all instances");
  auto list_options = std::make_shared<ListOptions>();
  list->add_option("--tier", list_options->tier, "Only this tier (default: all but plans, whose cells are no graphs)")
      ->type_name("TIER");
  list->add_option("--data", list_options->data, kDataHelp)->type_name("DIR");
  list->add_flag("--json", list_options->json,
                 "Print as JSON (emplace.library_list; with --tier plans, emplace.plan_cells)");
  CLI::App* const show = command->add_subcommand("show", "Show one instance, and write its graph and cluster");
  auto show_options = std::make_shared<ShowInstanceOptions>();
  show->add_option("name", show_options->name, "Instance of `emplace library list`, or cell of its tier plans")
      ->required()
      ->type_name("NAME");
  show->add_option("--graph-out", show_options->graph_output, "graph.json to write")->type_name("FILE");
  show->add_option("--cluster-out", show_options->cluster_output, "cluster.yaml to write")->type_name("FILE");
  show->add_option("--planted-out", show_options->planted_output,
                   "placement.json to write: the optimal placement of a planted graph")
      ->type_name("FILE");
  show->add_option("--data", show_options->data, kDataHelp)->type_name("DIR");
  show->add_flag("--json", show_options->json,
                 "Print as JSON (emplace.library_instance; of a cell, emplace.plan_cell)");
  CLI::App* const check = command->add_subcommand("check", "Simulate a placement, and report whether it is a record");
  auto check_options = std::make_shared<CheckOptions>();
  check->add_option("placement", check_options->placement, "placement.json")->required()->type_name("FILE");
  check
      ->add_option("--instance", check_options->instance,
                   "Instance of the placement (default: the one after which its cluster is named, else the only one "
                   "with its graph and cluster)")
      ->type_name("NAME");
  check->add_option("--step-time-ns", check_options->step_time_ns, "Reject the placement if its step time differs")
      ->type_name("NS")
      ->transform(IntegerFrom(0));
  check->add_flag("--json", check_options->json, "Print as JSON (emplace.library_check)");
  CLI::App* const score = command->add_subcommand("score", "Run an agent or planners on instances, and compare them");
  auto score_options = std::make_shared<ScoreChoice>();
  AddScoreOptions(*score, score_options.get());
  return {command, [=] {
            if (score->parsed()) return RunScoreChoice(*score_options);
            if (check->parsed()) return RunCheck(*check_options);
            return list->parsed() ? RunList(*list_options) : RunShow(*show_options);
          }};
}

}  // namespace emplace::tools
