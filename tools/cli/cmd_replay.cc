// emplace replay: a measured step beside its simulation.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agents/explain/words.h"
#include "datasets/importers/kineto.h"
#include "experiments/validation/replay.h"
#include "experiments/validation/roofline_check.h"
#include "sim/base/check.h"
#include "sim/base/exit_status.h"
#include "sim/base/human_readable.h"
#include "sim/base/json_text.h"
#include "sim/base/printable.h"
#include "sim/base/progress.h"
#include "sim/base/table.h"
#include "sim/base/terminal.h"
#include "tools/cli/commands.h"
#include "tools/cli/importing.h"
#include "tools/cli/numbers.h"
#include "tools/cli/problem.h"

namespace emplace::tools {
namespace {

constexpr double kDefaultMaxError = 10;  // per cent

struct ReplayOptions {
  std::vector<std::string> files;
  std::string format;
  std::string step;
  double min_attributed = datasets::ImportOptions().min_attributed_percent;
  std::optional<double> max_error;
  bool json = false;
  bool roofline = false;
  std::string costs;  // roofline, curves or files of curves: as --costs of other commands
  std::string times;
  std::string tf32;
  std::vector<std::string> scale_from;
};

std::string Error(double simulated, double measured) {
  return measured > 0 ? fmt::format("{:+.2f} %", 100 * (simulated / measured - 1)) : "-";
}

// Sums of many times: to a nanosecond.
std::string HumanReadableSum(double micros) { return HumanReadableMicros(std::round(micros * 1000) / 1000); }

// The components of the unexplained time; "" if none stands out.
std::string PartsText(const experiments::Replay& replay) {
  const experiments::Unexplained& parts = replay.unexplained;
  std::string text;
  for (const auto& [micros, what] :
       {std::pair(parts.without_call, "of activities that no call started"),
        std::pair(parts.idle, "of GPU idle time that nothing in the trace accounts for"),
        std::pair(parts.gaps, "of short gaps between activities that are not reproduced")}) {
    if (micros < 0.001 * replay.measured_step_time) continue;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", HumanReadableSum(micros), what);
  }
  return text;
}

std::string WarningText(const experiments::Replay& replay) {
  if (std::abs(replay.UnexplainedPercent()) <= datasets::kWarnUnexplained) return "";
  const std::string parts = PartsText(replay);
  return UnexplainedText(replay.step_time, replay.measured_step_time) + (parts.empty() ? "" : "; there is " + parts);
}

void PrintCriticalPath(std::ostream& out, const experiments::Replay& replay, const datasets::Imported& imported) {
  const std::vector<ChainPart> parts = agents::LongestParts(replay.explanation, agents::kShownParts);
  out << fmt::format("\nThe critical path of the simulated step: its longest parts, {} of {}:\n", parts.size(),
                     replay.explanation.chain.size());
  Table path({"part", "time", "%", "what", "where"});
  for (const ChainPart& part : parts) {
    const double micros = MicrosFromDuration(part.length());
    const bool is_launch = part.kind == ChainKind::kTransfer && !part.item.tensor;
    path.Add({std::string(part.kind == ChainKind::kCompute ? imported.graph.op(part.item.op).kind
                          : is_launch                      ? "launch delay"
                                                           : agents::Words(part.kind)),
              HumanReadableSum(micros),
              fmt::format("{:.1f}", replay.step_time > 0 ? 100 * micros / replay.step_time : 0),
              agents::PartText(imported.graph, part), agents::PlaceText(*imported.cluster, part.item)});
  }
  path.PrintText(out);
}

// A step of a CPU alone.
void PrintThreads(std::ostream& out, const experiments::Replay& replay) {
  out << (replay.activities == 1 ? "1 op range" : fmt::format("{} op ranges", replay.activities)) << " on "
      << (replay.threads.size() == 1 ? "1 thread" : fmt::format("{} threads", replay.threads.size())) << "\n";
  Table totals({"", "simulated", "measured", "error"});
  totals.Add({"step time", HumanReadableSum(replay.step_time), HumanReadableSum(replay.measured_step_time),
              Error(replay.step_time, replay.measured_step_time)});
  if (replay.measured_peak) {
    const auto bytes = [](double count) { return HumanReadable(Bytes{std::llround(count)}); };
    totals.Add({"allocated at the peak", bytes(replay.peak), bytes(*replay.measured_peak),
                Error(replay.peak, *replay.measured_peak)});
  }
  totals.PrintText(out);
  out << fmt::format("starts of op ranges are off by {} in the median, {} at the 90th percentile\n",
                     HumanReadableSum(replay.starts.median), HumanReadableSum(replay.starts.p90));
  out << "\nThreads, simulated / measured:\n";
  Table threads({"thread", "op ranges", "in op ranges", "between them", "waiting for others", "end"});
  for (const experiments::ReplayThread& thread : replay.threads) {
    const auto both = [](double a, double b) { return HumanReadableSum(a) + " / " + HumanReadableSum(b); };
    threads.Add({thread.name, std::to_string(thread.ranges), HumanReadableSum(thread.in_ranges),
                 HumanReadableSum(thread.between), both(thread.Waiting(), thread.MeasuredWaiting()),
                 both(thread.end, thread.measured_end)});
  }
  threads.PrintText(out);
}

void Print(std::ostream& out, const experiments::Replay& replay, const datasets::Imported& imported) {
  const std::string warning = WarningText(replay);
  if (!warning.empty()) out << warning << "\n";
  if (!replay.threads.empty()) {
    PrintThreads(out, replay);
    PrintCriticalPath(out, replay, imported);
    return;
  }
  std::string gpus;
  for (const std::string& gpu : replay.gpus) gpus += (gpus.empty() ? "" : ", ") + gpu;
  out << fmt::format("{}: {}, {} of their device time attributed\n", Printable(gpus),
                     replay.activities == 1 ? "1 GPU activity" : fmt::format("{} GPU activities", replay.activities),
                     fmt::format("{:.1f} %", replay.attributed_percent));
  Table totals({"", "simulated", "measured", "error"});
  totals.Add({"step time", HumanReadableSum(replay.step_time), HumanReadableSum(replay.measured_step_time),
              Error(replay.step_time, replay.measured_step_time)});
  totals.Add({"GPU busy", HumanReadableSum(replay.gpu_busy), HumanReadableSum(replay.measured_gpu_busy),
              Error(replay.gpu_busy, replay.measured_gpu_busy)});
  totals.PrintText(out);
  if (replay.measured_own_busy < replay.measured_gpu_busy) {
    out << fmt::format(
        "of the busy time {} is of the step's own activities, which span {}; the rest was launched before\n",
        HumanReadableSum(replay.measured_own_busy), HumanReadableSum(replay.measured_own_span));
  }
  const auto of_step = [&](double micros) {
    return fmt::format("{} ({:.2f} % of the step)", HumanReadableSum(micros),
                       replay.measured_step_time > 0 ? 100 * micros / replay.measured_step_time : 0);
  };
  out << fmt::format("starts of GPU activities are off by {} in the median, {} at the 90th percentile\n",
                     of_step(replay.starts.median), of_step(replay.starts.p90));

  out << "\nStreams, simulated / measured:\n";
  Table streams({"stream", "activities", "busy", "idle for the host", "for launch delays, gaps", "for other streams",
                 "end unexplained"});
  for (const experiments::ReplayStream& stream : replay.streams) {
    const auto both = [](double a, double b) { return HumanReadableSum(a) + " / " + HumanReadableSum(b); };
    streams.Add({stream.name, std::to_string(stream.activities), both(stream.busy, stream.measured_busy),
                 both(stream.idle[0], stream.measured_idle[0]), both(stream.idle[1], stream.measured_idle[1]),
                 both(stream.idle[2], stream.measured_idle[2]),
                 fmt::format("{:.2f} %", experiments::UnexplainedPercent(stream.end, stream.measured_end))});
  }
  streams.PrintText(out);
  PrintCriticalPath(out, replay, imported);
}

constexpr std::size_t kShownOperators = 12;

void AddRow(Table* table, const experiments::RooflineRow& row, double all) {
  const auto percent = [](double part) { return fmt::format("{:.0f}", 100 * part); };
  table->Add({Printable(row.name), std::to_string(row.calls), std::to_string(row.kernels),
              HumanReadableSum(row.measured), fmt::format("{:.1f}", all > 0 ? 100 * row.measured / all : 0),
              HumanReadableSum(row.roofline), fmt::format("{:.2f}", row.Ratio()), percent(row.median_error),
              percent(row.p90_error)});
}

void PrintRoofline(std::ostream& out, const experiments::RooflineCheck& check, const std::string& costs,
                   bool is_scaled) {
  const double all = check.total.measured + check.unknown_time + check.transfers;
  out << fmt::format("{}{} against measured, on {}; % of {} of device time\n", is_scaled ? "scaled " : "",
                     Printable(costs), check.kind, HumanReadableSum(all));
  const std::vector<std::string> columns = {"class",
                                            "calls",
                                            "kernels",
                                            "measured",
                                            "%",
                                            is_scaled             ? "scaled"
                                            : costs == "roofline" ? "roofline"
                                                                  : "curves",
                                            "ratio",
                                            "median |error| %",
                                            "90 % within, %"};
  Table classes(columns);
  for (const experiments::RooflineRow& row : check.classes) AddRow(&classes, row, all);
  AddRow(&classes, check.total, all);
  classes.PrintText(out);
  out << fmt::format("\nThe operators that took longest, {} of {}:\n",
                     std::min(kShownOperators, check.operators.size()), check.operators.size());
  std::vector<std::string> operator_columns = columns;
  operator_columns[0] = "operator";
  Table operators(operator_columns);
  for (std::size_t i = 0; i < std::min(kShownOperators, check.operators.size()); ++i) {
    AddRow(&operators, check.operators[i], all);
  }
  operators.PrintText(out);
  out << fmt::format("\n|error| of a call, mean: {:.1f} %\n", 100 * check.total.mean_error);
  if (check.step_time) {
    out << fmt::format("the step with these times: {} simulated, {} measured, {}\n", HumanReadableSum(*check.step_time),
                       HumanReadableSum(*check.measured_step_time), Error(*check.step_time, *check.measured_step_time));
  }
  out << fmt::format("not compared: {} of copies from and to the host, and of collectives\n",
                     HumanReadableSum(check.transfers));
  if (check.unknown.empty()) return;
  std::string names;
  for (std::size_t i = 0; i < std::min(kShownOperators, check.unknown.size()); ++i) {
    names += (i > 0 ? ", " : "") + (check.unknown[i].empty() ? "kernels of no operator" : Printable(check.unknown[i]));
  }
  if (check.unknown.size() > kShownOperators) {
    names += fmt::format(" and {} more", check.unknown.size() - kShownOperators);
  }
  out << fmt::format("not known to {}: {} of {}\n", Printable(costs), HumanReadableSum(check.unknown_time), names);
}

int RunRoofline(const ReplayOptions& options) {
  const std::string costs = options.costs.empty() ? "roofline" : options.costs;
  const experiments::CostsChoice choice = {.model = costs, .tf32 = options.tf32};
  if (costs != "roofline" && !choice.has_curves()) {
    throw InputError("--costs", fmt::format("is {} (roofline, curves or a file of emplace calibrate)", Quoted(costs)));
  }
  if (!options.tf32.empty()) Tf32FromName(options.tf32, "--tf32");
  const experiments::CostModels models = experiments::LoadCostModels(choice, "--costs");
  std::optional<experiments::RooflineScales> scales;
  if (!options.scale_from.empty()) {
    std::vector<datasets::Imported> sources;
    for (const std::string& file : options.scale_from) {
      sources.push_back(ImportFiles({file}, "", {.min_attributed_percent = options.min_attributed}).imported);
      // For the name of the file that has nothing to compare.
      WithLocation(file, [&] { return experiments::MeasureRooflineScales({&sources.back(), 1}, *models.model); });
    }
    scales = experiments::MeasureRooflineScales(sources, *models.model);
  }
  const auto [importer, imported] =
      ImportFiles(options.files, options.format,
                  {.min_attributed_percent = options.min_attributed, .times = options.times, .step = options.step});
  const experiments::RooflineCheck check = WithLocation(options.files.front(), [&, &step = imported] {
    return experiments::CheckRoofline(step, *models.model, scales ? &*scales : nullptr);
  });
  for (const std::string& note : imported.notes) PrintMessage(fmt::format("{}: {}", options.files.front(), note));
  if (options.json) {
    experiments::WriteRooflineCheck(std::cout, check, costs);
  } else {
    PrintRoofline(std::cout, check, costs, scales.has_value());
  }
  return kSuccess;
}

// `first` is the replay of `imported`, which is one of the steps; `import` gives another one by its number.
template <typename Import>
experiments::Replay MeanOverSteps(const datasets::Imported& imported, const experiments::Replay& first,
                                  const Import& import) {
  std::vector<experiments::Replay> replays = {first};
  std::vector<double> measured = {first.measured_step_time};
  for (const std::int64_t number : imported.measured->steps) {
    if (!imported.measured->step || number == *imported.measured->step) continue;
    replays.push_back(experiments::MakeReplay(import(std::to_string(number)).imported));
    measured.push_back(replays.back().measured_step_time);
  }
  const auto [least, most] = std::minmax_element(measured.begin(), measured.end());
  PrintMessage(fmt::format("the mean over {} steps, which take {} to {}", replays.size(), HumanReadableSum(*least),
                           HumanReadableSum(*most)));
  return experiments::MeanOf(replays);
}

int Run(const ReplayOptions& options) {
  const BusyLine busy("replay");
  std::vector<std::string> inputs = options.files;
  inputs.insert(inputs.end(), options.scale_from.begin(), options.scale_from.end());
  for (std::string& file : experiments::CurvesFiles(options.costs)) inputs.push_back(std::move(file));
  CheckFiles(inputs, {});
  const bool estimates = options.roofline || !options.costs.empty();
  constexpr const char* kNeeds = "needs --costs, or --roofline";
  if (options.roofline && !options.costs.empty()) throw InputError("--costs", "and --roofline exclude each other");
  if (!estimates && !options.scale_from.empty()) throw InputError("--scale-from", kNeeds);
  if (!estimates && !options.times.empty()) throw InputError("--times", kNeeds);
  if (!estimates && !options.tf32.empty()) throw InputError("--tf32", kNeeds);
  const std::string given = options.roofline ? "--roofline" : "--costs";
  if (estimates && options.max_error) throw InputError("--max-error", "is not for " + given);
  if (estimates && options.step == "mean") throw InputError("--step", "is mean, which is not for " + given);
  if (estimates) return RunRoofline(options);
  const bool is_mean = options.step == "mean";
  const auto import = [&](const std::string& step) {
    return ImportFiles(options.files, options.format, {.min_attributed_percent = options.min_attributed, .step = step});
  };
  const ImportedFiles read = import(is_mean ? "" : options.step);
  const datasets::Imported& imported = read.imported;
  if (!imported.measured) {
    throw InputError(
        options.files.front(),
        fmt::format("holds no measured step to compare with (format {}; kineto does)", read.importer.name));
  }
  for (const std::string& note : imported.notes) PrintMessage(fmt::format("{}: {}", options.files.front(), note));
  experiments::Replay replay = experiments::MakeReplay(imported);
  if (is_mean) replay = MeanOverSteps(imported, replay, import);
  if (options.json) {
    const std::string warning = WarningText(replay);
    if (!warning.empty()) PrintMessage(fmt::format("{}: {}", options.files.front(), warning));
    experiments::WriteReplay(std::cout, replay, imported);
  } else {
    Print(std::cout, replay, imported);
  }
  return std::abs(replay.UnexplainedPercent()) > options.max_error.value_or(kDefaultMaxError) ? kNotFound : kSuccess;
}

}  // namespace

Command AddReplay(CLI::App& app) {
  CLI::App* const command =
      app.add_subcommand("replay", "Simulate the step of a trace, and compare it with the measurement");
  auto options = std::make_shared<ReplayOptions>();
  command->add_option("trace", options->files, "Trace, or for a step of several ranks the traces of all ranks")
      ->required()
      ->type_name("TRACE");
  command->add_option("--from", options->format, "Format (default: found from the content)")->type_name("FORMAT");
  AddStepOption(*command, &options->step, /*mean=*/true);
  AddMinAttributedOption(*command, &options->min_attributed);
  command
      ->add_option(
          "--max-error", options->max_error,
          "Exit with status 1 if more than this percentage of the measured step is not explained (default: 10)")
      ->type_name("PERCENT")
      ->transform(NumberFrom(0, 1e9));
  command
      ->add_option("--costs", options->costs,
                   "Instead, compare the times of these costs with the measured times of operators, by class, and "
                   "simulate the step with them: roofline, curves, or a file of emplace calibrate")
      ->type_name("MODEL|FILE");
  command->add_flag("--roofline", options->roofline, "The same as --costs roofline");
  command
      ->add_option("--times", options->times,
                   "With --costs: Kineto trace with the times of an Execution Trace (pytorch-et)")
      ->type_name("KINETO");
  command
      ->add_option("--tf32", options->tf32,
                   "With --costs: f32 products in TF32: none, convolutions or all (default: as in the trace, else "
                   "convolutions)")
      ->type_name("WHICH");
  command
      ->add_option("--scale-from", options->scale_from,
                   "With --costs: trace of another GPU, or graph.json with its times, by whose operators estimated "
                   "times are corrected; may be repeated")
      ->type_name("FILE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_flag("--json", options->json, "Print the result as JSON (emplace.replay or emplace.roofline-check)");
  return {command, [options] { return Run(*options); }};
}

}  // namespace emplace::tools
