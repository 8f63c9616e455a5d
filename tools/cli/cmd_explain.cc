// emplace explain: where a simulated step goes, and which moves would make it shorter.

#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agents/explain/words.h"
#include "experiments/report/explanation.h"
#include "experiments/report/html.h"
#include "experiments/report/schedule_explanation.h"
#include "sim/base/check.h"
#include "sim/base/exit_status.h"
#include "sim/base/file_io.h"
#include "sim/base/human_readable.h"
#include "sim/base/printable.h"
#include "sim/base/progress.h"
#include "sim/base/table.h"
#include "sim/formats/report_text.h"
#include "sim/placement.h"
#include "sim/simulator.h"
#include "tools/cli/commands.h"
#include "tools/cli/numbers.h"
#include "tools/cli/problem.h"
#include "tools/cli/search.h"

namespace emplace::tools {
namespace {

constexpr std::size_t kShownShares = 8;

struct ExplainOptions {
  ProblemOptions problem;
  std::string placement;
  std::optional<std::size_t> moves;
  bool json = false;
  std::string output;  // a page
};

class Printer {
 public:
  Printer(std::ostream& out, const experiments::Explanation& explanation, const Graph& graph, const Cluster& cluster)
      : out_(out), e_(explanation), graph_(graph), cluster_(cluster) {}

  void Print() {
    PrintHead();
    PrintTotals();
    PrintParts();
    PrintShares();
    PrintDevices();
    PrintMoves();
    PrintSlack();
  }

 private:
  static std::string Time(Duration duration) { return HumanReadableMicros(MicrosFromDuration(duration)); }
  std::string Percent(double micros) const {
    const double step = MicrosFromDuration(e_.step.step_time);
    return fmt::format("{:.1f}", step > 0 ? 100 * micros / step : 0);
  }
  std::string Percent(Duration duration) const { return Percent(MicrosFromDuration(duration)); }

  void PrintHead() {
    const StepReport& report = e_.report;
    PrintExplanationHead(out_, report);
    for (const StepReport::DeviceRow& row : report.devices) {
      if (!row.memory || row.peak <= *row.memory) continue;
      out_ << fmt::format("memory       {} is over by {}\n", Printable(row.name),
                          HumanReadable(row.peak - *row.memory));
    }
  }

  void PrintTotals() {
    out_ << "\nThe critical chain, which takes the whole step:\n";
    Table table({"part", "time", "%", "of"});
    for (std::size_t k = 0; k < e_.step.num_chain_kinds(); ++k) {
      const auto kind = static_cast<ChainKind>(k);
      table.Add({std::string(agents::Words(kind)), Time(e_.step.totals[k]), Percent(e_.step.totals[k]),
                 std::string(agents::Meaning(kind))});
    }
    table.PrintText(out_);
  }

  void PrintParts() {
    const std::vector<ChainPart> parts = agents::LongestParts(e_.step, agents::kShownParts);
    if (parts.empty()) return;
    out_ << fmt::format("\nIts longest parts, {} of {}:\n", parts.size(), e_.step.chain.size());
    Table table({"part", "time", "%", "what", "where"});
    for (const ChainPart& part : parts) {
      table.Add({std::string(agents::Words(part.kind)), Time(part.length()), Percent(part.length()),
                 agents::PartText(graph_, part), agents::PlaceText(cluster_, part.item)});
    }
    table.PrintText(out_);
  }

  // Where a few parts say little.
  void PrintShares() {
    if (e_.step.chain.size() <= agents::kShownParts) return;
    const std::vector<agents::ChainShare> shares = agents::SharesOf(graph_, e_.step);
    const std::size_t shown = std::min(kShownShares, shares.size());
    out_ << fmt::format("\nThe chain by layer, or kind of op, {} of {}:\n", shown, shares.size());
    Table table({"ops", "compute, transfer", e_.step.has_issue_lanes ? "queues, gaps, issue" : "queues, gaps", "%"});
    for (std::size_t i = 0; i < shown; ++i) {
      table.Add({shares[i].name, Time(shares[i].needed), Time(shares[i].other), Percent(shares[i].sum())});
    }
    table.PrintText(out_);
  }

  void PrintDevices() {
    out_ << "\nHow each device spends the step:\n";
    bool any_sends = false;
    for (const DeviceUse& use : e_.step.devices) any_sends |= use.sending > Duration(0);
    std::vector<std::string> header = {"device", "ops", "busy", "busy %", "waits for ops", "waits for transfers",
                                       "gaps"};
    if (any_sends) header.emplace_back("sends");
    if (e_.step.has_issue_lanes) header.emplace_back("waits for issue");
    header.insert(header.end(), {"idle", "on the chain %"});
    Table table(header);
    for (std::size_t d = 0; d < e_.step.devices.size(); ++d) {
      const DeviceUse& use = e_.step.devices[d];
      std::vector<std::string> row = {
          e_.report.devices[d].name, std::to_string(e_.report.devices[d].ops), Time(use.busy), Percent(use.busy),
          Time(use.waiting_for_ops), Time(use.waiting_for_transfers),          Time(use.gap)};
      if (any_sends) row.push_back(Time(use.sending));
      if (e_.step.has_issue_lanes) row.push_back(Time(use.waiting_for_issue));
      row.insert(row.end(), {Time(use.idle), Percent(use.on_chain)});
      table.Add(row);
    }
    table.PrintText(out_);
  }

  void PrintMoves() {
    const agents::MoveResults& moves = e_.moves;
    const std::size_t shown = std::min(experiments::kShownMoves, moves.gains.size());
    if (moves.simulated == 0) {
      out_ << "\nNo move was simulated: no op of the chain may go anywhere else.\n";
    } else if (moves.gains.empty()) {
      out_ << fmt::format("\n{} simulated, one at a time: none makes the step shorter.\n",
                          Counted(moves.simulated, "move"));
    } else {
      out_ << fmt::format("\n{} simulated, one at a time: {} the step shorter.\n", Counted(moves.simulated, "move"),
                          moves.gains.size() == 1 ? "1 makes" : fmt::format("{} make", moves.gains.size()));
    }
    if (moves.over_memory > 0) {
      out_ << fmt::format("{} left out: over memory.\n", Counted(moves.over_memory, "move"));
    }
    if (moves.not_tried > 0) {
      out_ << fmt::format("At least {} not tried (--moves).\n", Counted(moves.not_tried, "further move"));
    }
    if (shown == 0) return;
    Table table({"move", "from", "to", "step time", "gain", "gain %"});
    for (std::size_t i = 0; i < shown; ++i) {
      const agents::Move& move = moves.gains[i];
      table.Add({agents::MoveText(graph_, move), cluster_.device(move.from).name, cluster_.device(move.to).name,
                 HumanReadableMicros(move.step_time_micros), Time(DurationFromMicros(move.gain_micros)),
                 Percent(move.gain_micros)});
    }
    table.PrintText(out_);
  }

  void PrintSlack() {
    const Duration little = e_.step.step_time / 100;
    std::size_t none = 0;
    std::size_t few = 0;
    for (const Duration slack : e_.step.slack) {
      none += slack == Duration(0) ? 1 : 0;
      few += slack <= little ? 1 : 0;
    }
    out_ << fmt::format("\nSlack: {} of {} none, {} at most 1 % of the step.\n", none,
                        Counted(e_.step.slack.size(), "op") + (e_.step.slack.size() == 1 ? " has" : " have"), few);
  }

  std::ostream& out_;
  const experiments::Explanation& e_;
  const Graph& graph_;
  const Cluster& cluster_;
};

// A step of many micro-batches is explained by actions; moves of ops would need another pipeline each.
int ExplainWithSchedule(const ExplainOptions& options, const ScheduleChoice& choice, const Graph& graph,
                        const Cluster& cluster, const LoadedCosts& costs, const Placement& placement) {
  const SchedulePlaces places = {options.problem.graph.file, options.placement, "--schedule " + choice.name};
  experiments::ExplainedSchedule explained =
      experiments::MakeExplainedSchedule(graph, cluster, costs.table, placement, choice, places);
  costs.SetIn(&explained.report);
  WriteFile("-", [&](std::ostream& out) {
    options.json ? experiments::WriteExplainedSchedule(out, explained, graph, cluster)
                 : experiments::PrintExplainedSchedule(out, explained, cluster);
  });
  return kSuccess;
}

int Run(const ExplainOptions& options) {
  BusyLine busy("explain");
  const ProblemOptions& problem = options.problem;
  CheckProblem(problem);
  const std::optional<ScheduleChoice> schedule = LoadSchedule(Resolved(problem.settings), agents::Door::kCommandLine);
  if (schedule && options.moves) throw InputError("--moves", "is not for a schedule, for which no moves are simulated");
  if (schedule && !options.output.empty()) throw InputError("--output", "is not for a schedule (--json)");
  if (!options.output.empty() && options.output != "-" && !options.output.ends_with(".html")) {
    throw InputError(options.output, "is not a name for a page (a name that ends in .html)");
  }
  std::vector<std::string> inputs = InputFiles(problem);
  inputs.push_back(options.placement);
  CheckFiles(inputs, {options.output});
  if (options.output == "-" && options.json) {
    throw InputError("-", "is used for both --output and --json (one may be standard output)");
  }
  const Graph graph = experiments::LoadGraph(problem.graph);
  const Cluster cluster = LoadCluster(problem);
  const LoadedCosts loaded = LoadCosts(problem, graph, cluster);
  const CostTable& costs = loaded.table;
  const Placement placement = LoadPlacement(options.placement, graph, cluster, costs);
  if (schedule) return ExplainWithSchedule(options, *schedule, graph, cluster, loaded, placement);
  const Simulator simulator = MakeSimulator(problem, graph, cluster, costs);
  busy.End();
  experiments::Explanation explanation =
      experiments::MakeExplanation(graph, cluster, costs, placement, simulator,
                                   options.moves.value_or(SimulationsFor(graph, 1000)), ShownSimulations("explain"));
  loaded.SetIn(&explanation.report);
  std::vector<FileToWrite> files;
  if (!options.output.empty()) {
    files.push_back({options.output, [&](std::ostream& out) {
                       experiments::WriteHtml(out,
                                              experiments::MakeExplanationPage(explanation, graph, cluster, placement));
                     }});
  }
  if (options.output != "-") {
    files.push_back({"-", [&](std::ostream& out) {
                       if (options.json) {
                         experiments::WriteExplanation(out, explanation, graph, cluster, placement);
                       } else {
                         Printer(out, explanation, graph, cluster).Print();
                       }
                     }});
  }
  WriteFiles(files);
  return kSuccess;
}

}  // namespace

Command AddExplain(CLI::App& app) {
  CLI::App* const command = app.add_subcommand(
      "explain", "Explain where the time of a step goes: critical chain, slack, devices and the best moves");
  auto options = std::make_shared<ExplainOptions>();
  AddGraphOption(*command, &options->problem);
  AddClusterOptions(*command, &options->problem);
  AddGpusOption(*command, &options->problem);
  command->add_option("--placement", options->placement, "placement.json")->required()->type_name("FILE");
  AddCostOptions(*command, &options->problem);
  AddSimulationOptions(*command, &options->problem);
  command
      ->add_option("--moves", options->moves,
                   "Maximum number of moves to simulate (default: 1000, or fewer for graphs of more than 20,000 ops)")
      ->type_name("N")
      ->transform(IntegerFrom(0, 1'000'000));
  command->add_flag("--json", options->json, "Print everything as JSON (emplace.explanation)");
  command
      ->add_option("-o,--output", options->output, "Write an HTML page with the timeline; the name must end in .html")
      ->type_name("FILE");
  return {command, [options] { return Run(*options); }};
}

}  // namespace emplace::tools
