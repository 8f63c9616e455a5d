// emplace diff: what moved between two placements, and what each move gains.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agents/explain/words.h"
#include "experiments/report/difference.h"
#include "sim/base/check.h"
#include "sim/base/exit_status.h"
#include "sim/base/file_io.h"
#include "sim/base/human_readable.h"
#include "sim/base/json_text.h"
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

constexpr std::size_t kShownPieces = 20;

struct DiffOptions {
  ProblemOptions problem;
  std::vector<std::string> placements;  // two files
  std::optional<std::size_t> pieces;
  std::string by = "pieces";
  bool json = false;
};

std::string GroupError(const std::string& text) {
  return text == "pieces" || text == "layers" ? "" : fmt::format("unknown {} (pieces, layers)", Quoted(text));
}

class DiffPrinter {
 public:
  DiffPrinter(std::ostream& out, const experiments::Difference& difference, const Graph& graph, const Cluster& cluster,
              bool by_layer)
      : out_(out), d_(difference), graph_(graph), cluster_(cluster), by_layer_(by_layer) {}

  void Print(const std::string& name_a, const std::string& name_b) {
    out_ << HeadLine(d_.report_a) << '\n';
    if (d_.pieces.moved_ops == 0) {
      out_ << fmt::format("{} and {} are the same placement: {}\n", Printable(name_a), Printable(name_b),
                          HumanReadableMicros(a_micros()));
      return;
    }
    PrintBoth(name_a, name_b);
    PrintPieces();
  }

 private:
  double a_micros() const { return d_.report_a.step_time_micros; }

  // In whole ns; a loss has a minus.
  static std::string Gain(double micros) {
    const Duration gain = DurationFromMicros(micros);
    if (gain == Duration(0)) return "0 us";
    return (gain < Duration(0) ? "-" : "") + HumanReadableMicros(MicrosFromDuration(gain < Duration(0) ? -gain : gain));
  }
  std::string Percent(double micros) const {
    return fmt::format("{:.1f}", a_micros() > 0 ? 100 * micros / a_micros() : 0);
  }
  static std::string Fits(const std::optional<agents::DiffStep>& step) {
    if (!step) return "no link";
    if (step->overflow_bytes == 0) return "";
    return "over memory by " + HumanReadable(Bytes{static_cast<std::int64_t>(step->overflow_bytes)});
  }

  void PrintBoth(const std::string& name_a, const std::string& name_b) {
    const std::size_t kinds = d_.step_a.num_chain_kinds();
    std::vector<std::string> header = {"placement", "step time"};
    for (std::size_t k = 0; k < kinds; ++k) header.emplace_back(agents::Words(static_cast<ChainKind>(k)));
    header.insert(header.end(), {"tensors sent", "fits"});
    Table table(header);
    const auto add = [&](const std::string& name, const StepReport& report, const StepExplanation& step) {
      std::vector<std::string> row = {name, HumanReadableMicros(report.step_time_micros)};
      for (std::size_t k = 0; k < kinds; ++k) row.push_back(HumanReadableMicros(MicrosFromDuration(step.totals[k])));
      row.insert(row.end(), {std::to_string(report.tensors_sent), report.fits_memory ? "yes" : "no"});
      table.Add(row);
    };
    add(name_a, d_.report_a, d_.step_a);
    add(name_b, d_.report_b, d_.step_b);
    table.PrintText(out_);
    const double gain = a_micros() - d_.report_b.step_time_micros;
    out_ << fmt::format("\n{} of {} moved, in {}", d_.pieces.moved_ops, Counted(graph_.num_ops(), "op"),
                        Counted(NumPieces(), "piece"));
    const double size = std::abs(gain);
    out_ << (gain == 0 ? ". The step keeps its time.\n"
                       : fmt::format(". The step gets {} {}, {} %.\n", Gain(size), gain > 0 ? "shorter" : "longer",
                                     Percent(size)));
  }

  std::size_t NumPieces() const {
    const std::size_t joined = d_.pieces.joined_pieces;
    return d_.pieces.pieces.size() + (joined > 0 ? joined - 1 : 0);
  }

  std::string Name(const agents::DiffPiece& piece) const {
    const std::string_view layer = graph_.op(piece.ops[0]).layer;
    const auto in_layer = [&](OpId op) { return graph_.op(op).layer == layer; };
    if (by_layer_ && !layer.empty() && std::all_of(piece.ops.begin(), piece.ops.end(), in_layer)) {
      return "layer " + agents::ShortName(layer);
    }
    return agents::OpsText(graph_, piece.ops);
  }

  void PrintPieces() {
    const std::vector<agents::DiffPiece>& pieces = d_.pieces.pieces;
    out_ << "Each alone, and one after another in this order:\n";
    Table table({"piece", "from", "to", "ops", "gain alone", "%", "", "step time so far", "gain so far", ""});
    const auto add = [&](const agents::DiffPiece& piece) {
      const std::string name =
          piece.from ? Name(piece) : fmt::format("the other {}", Counted(d_.pieces.joined_pieces, "piece"));
      const auto gain = [&](const std::optional<agents::DiffStep>& step) {
        return step ? Gain(a_micros() - step->step_time_micros) : "-";
      };
      table.Add({name, piece.from ? cluster_.device(*piece.from).name : "",
                 piece.to ? cluster_.device(*piece.to).name : "", std::to_string(piece.ops.size()), gain(piece.alone),
                 piece.alone ? Percent(a_micros() - piece.alone->step_time_micros) : "-", Fits(piece.alone),
                 piece.cumulative ? HumanReadableMicros(piece.cumulative->step_time_micros) : "-",
                 gain(piece.cumulative), Fits(piece.cumulative)});
    };
    const std::size_t shown = std::min(kShownPieces, pieces.size());
    for (std::size_t i = 0; i < shown; ++i) add(pieces[i]);
    if (shown < pieces.size()) add(pieces.back());
    table.PrintText(out_);
    if (shown + 1 < pieces.size()) {
      out_ << fmt::format("{} between the last two lines are not shown (--json).\n",
                          Counted(pieces.size() - shown - 1, "piece"));
    }
  }

  std::ostream& out_;
  const experiments::Difference& d_;
  const Graph& graph_;
  const Cluster& cluster_;
  const bool by_layer_;
};

// The first of three files is the graph.
void TakeGraph(DiffOptions* options) {
  std::string& graph = options->problem.graph.file;
  const bool has_three = options->placements.size() == 3;
  if (graph.empty() != has_three) {
    throw InputError("placements", has_three ? "are three files, and --graph is given too (two, or without --graph)"
                                             : "are two files, and no graph is given (--graph, or three files)");
  }
  if (!has_three) return;
  graph = options->placements.front();
  options->placements.erase(options->placements.begin());
}

int Run(DiffOptions options) {
  TakeGraph(&options);
  BusyLine busy("diff");
  const ProblemOptions& problem = options.problem;
  CheckProblem(problem);
  CheckFiles(
      {problem.graph.file, problem.cluster.name, options.placements[0], options.placements[1], problem.costs.profile},
      {});
  const Graph graph = experiments::LoadGraph(problem.graph);
  const Cluster cluster = LoadCluster(problem);
  const LoadedCosts loaded = LoadCosts(problem, graph, cluster);
  const CostTable& costs = loaded.table;
  std::vector<Placement> placements;
  for (const std::string& file : options.placements) {
    placements.push_back(LoadPlacement(file, graph, cluster, costs));
  }
  const Simulator simulator = MakeSimulator(problem, graph, cluster, costs);
  const agents::DiffBy by = options.by == "layers" ? agents::DiffBy::kLayer : agents::DiffBy::kConnection;
  busy.End();
  experiments::Difference difference =
      experiments::MakeDifference(graph, cluster, costs, placements[0], placements[1], simulator,
                                  options.pieces.value_or(SimulationsFor(graph, 500)), by, ShownSimulations("diff"));
  loaded.SetIn(&difference.report_a);
  if (options.json) {
    experiments::WriteDifference(std::cout, difference, graph, cluster, options.placements[0], options.placements[1]);
  } else {
    DiffPrinter(std::cout, difference, graph, cluster, by == agents::DiffBy::kLayer)
        .Print(options.placements[0], options.placements[1]);
  }
  return kSuccess;
}

}  // namespace

Command AddDiff(CLI::App& app) {
  CLI::App* const command =
      app.add_subcommand("diff", "Show the differences between two placements, and what each move gains");
  auto options = std::make_shared<DiffOptions>();
  command->add_option("--graph", options->problem.graph.file, "graph.json (default: the first of three files)")
      ->type_name("FILE");
  AddClusterOptions(*command, &options->problem);
  AddGpusOption(*command, &options->problem);
  command
      ->add_option(
          "placements", options->placements,
          "Two placement.json files, the old one and the new one, preceded by the graph unless --graph names it")
      ->required()
      ->expected(2, 3)
      ->type_name("FILE");
  command
      ->add_option(
          "--by", options->by,
          "Ops that count as one move: pieces, connected by inputs and control inputs, or layers (default: pieces)")
      ->type_name("WHAT")
      ->check(CLI::Validator(GroupError, "", "what"));
  AddCostOptions(*command, &options->problem);
  AddSimulationOptions(*command, &options->problem, {"schedule", "micro_batches"});
  command
      ->add_option("--pieces", options->pieces,
                   "Maximum number of pieces to simulate: those whose ops take longest, and the others together "
                   "(default: 500, or fewer for graphs of more than 20,000 ops)")
      ->type_name("N")
      ->transform(IntegerFrom(1, 1'000'000));
  command->add_flag("--json", options->json, "Print everything as JSON (emplace.diff)");
  return {command, [options] { return Run(*options); }};
}

}  // namespace emplace::tools
