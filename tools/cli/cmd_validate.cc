#include <fmt/format.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agents/agent.h"
#include "experiments/plan/hardware_choice.h"
#include "experiments/validation/placement_samples.h"
#include "experiments/validation/rerun.h"
#include "experiments/validation/validation.h"
#include "experiments/validation/verdict.h"
#include "profiler/execute/hardware_runner.h"
#include "profiler/measure/machine_load.h"
#include "sim/base/check.h"
#include "sim/base/exit_status.h"
#include "sim/base/file_io.h"
#include "sim/base/human_readable.h"
#include "sim/base/json_text.h"
#include "sim/base/progress.h"
#include "sim/base/table.h"
#include "sim/base/terminal.h"
#include "sim/timeline.h"
#include "tools/cli/commands.h"
#include "tools/cli/hardware.h"
#include "tools/cli/numbers.h"
#include "tools/cli/problem.h"
#include "tools/cli/search.h"

namespace emplace::tools {
namespace {

struct ValidateOptions {
  ProblemOptions problem;
  std::vector<std::string> placements;
  std::size_t random = 0;
  std::string mostly;
  std::string agent;
  std::size_t samples = 25;
  std::string rerun_of;
  std::size_t rounds = 10;  // 0: one placement after the other
  std::optional<std::size_t> warmups;
  std::optional<std::size_t> steps;
  std::string devices = "cpu:0,cpu:1";
  profiler::HardwareOptions hardware{.patience_seconds = 5};
  std::string statistic = "median";
  std::optional<double> max_error;
  double time_limit = 0;  // s; 0: none
  bool json = false;
  std::string timeline;
  std::string simulated_timeline;
};

// The cluster that is simulated: --cluster, or the devices as the profile describes them.
Cluster ClusterOf(const ValidateOptions& options, const OpenDevices& open) {
  if (options.problem.cluster.name.empty()) {
    const Profile profile = LoadProfile(options.problem.costs.profile);
    return WithLocation(options.problem.costs.profile,
                        [&] { return profiler::MachineCluster("this machine", open.Named(), profile); });
  }
  ProblemOptions problem = options.problem;
  problem.cluster.devices = SplitAtCommas(options.devices);
  Cluster cluster = LoadCluster(problem);
  for (const Device& device : cluster.devices()) {
    for (const profiler::NamedDevice& real : open.Named()) {
      if (real.name == device.name && real.kind != device.kind) {
        throw InputError(options.problem.cluster.name, fmt::format("device {} is of kind {}, the real one is {}",
                                                                   device.name, device.kind, real.kind));
      }
    }
  }
  return cluster;
}

// nullopt of "".
std::optional<DeviceId> DeviceOf(const std::string& name, const Cluster& cluster) {
  if (name.empty()) return std::nullopt;
  if (const std::optional<DeviceId> device = cluster.FindDevice(name)) return device;
  throw InputError("--mostly", fmt::format("{} is not a device of {}", Quoted(name), Quoted(cluster.name())));
}

std::vector<experiments::SampledPlacement> Collect(const ValidateOptions& options, const agents::SearchSpec& spec) {
  std::vector<experiments::SampledPlacement> all;
  for (const std::string& path : options.placements) {
    all.push_back({path, LoadPlacement(path, spec.problem.graph, spec.problem.cluster, spec.problem.costs)});
  }
  const auto add = [&](std::vector<experiments::SampledPlacement> more) {
    all.insert(all.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  };
  if (options.random > 0) {
    add(experiments::RandomPlacements(spec.problem, options.random, options.problem.settings.seed,
                                      DeviceOf(options.mostly, spec.problem.cluster)));
  }
  if (!options.agent.empty()) add(experiments::AgentPlacements(spec, options.samples));
  return all;
}

std::string Percent(double part) { return fmt::format("{:.1f}", 100 * part); }

void PrintCases(std::ostream& out, const std::vector<experiments::ValidationCase>& cases) {
  const bool in_rounds = std::any_of(cases.begin(), cases.end(), [](const auto& one) { return one.speed_up; });
  std::vector<std::string> header = {"placement", "simulated", "measured", "error, %"};
  if (in_rounds) header.insert(header.end(), {"times as fast", "95 %"});
  Table table(header);
  for (const experiments::ValidationCase& one : cases) {
    std::vector<std::string> row = {
        one.label, one.simulated_fits ? HumanReadableMicros(one.simulated.micros) : "does not fit",
        one.measured.result.fits_memory ? HumanReadableMicros(one.measured.result.step_time_micros) : "does not fit",
        one.Compared() ? fmt::format("{:+.1f}", 100 * one.StepError()) : ""};
    if (in_rounds) {
      row.push_back(one.speed_up ? fmt::format("{:.2f}", one.speed_up->mean) : "");
      const bool is_sure = one.speed_up && one.speed_up->interval;
      row.push_back(is_sure ? fmt::format("{:.2f} to {:.2f}", one.speed_up->interval->low, one.speed_up->interval->high)
                            : "");
    }
    table.Add(row);
  }
  table.PrintText(out);
}

void PrintErrors(std::ostream& out, std::string_view what, const experiments::StepErrors& errors) {
  out << fmt::format("{}: median error {} %, 90th percentile {} %, largest {} %, mean signed {:+.1f} %\n", what,
                     Percent(errors.median), Percent(errors.p90), Percent(errors.largest), 100 * errors.mean_signed);
  if (errors.spearman) {
    out << fmt::format("order kept: Spearman {:.3f}, Pearson {:.3f}\n", *errors.spearman, errors.pearson.value_or(0));
  }
}

void PrintErrors(std::ostream& out, std::string_view what, const experiments::PredictionErrors& prediction) {
  PrintErrors(out, what, prediction.step);
  out << fmt::format(
      "busy time of a device: median error {} % of the step, 90th percentile {} %; start of an op: {} %, {} %\n",
      Percent(prediction.median_busy), Percent(prediction.p90_busy), Percent(prediction.median_start),
      Percent(prediction.p90_start));
}

void PrintSummary(std::ostream& out, const experiments::ValidationSummary& summary) {
  out << fmt::format("{} placements, {} compared", summary.placements, summary.compared);
  if (summary.fit_disagrees > 0) out << fmt::format(", {} fit in one only", summary.fit_disagrees);
  out << '\n';
  if (summary.compared == 0) return;
  PrintErrors(out, "step time", summary.simulated);
  if (summary.interleaved) PrintErrors(out, "with op times taken between the steps", *summary.interleaved);
  if (summary.contention) {
    out << fmt::format(
        "beside busy devices ops take {:.2f} times as long; with the factors of the profile {:.2f} times ({} samples "
        "of "
        "each op)\n",
        summary.contention->measured, summary.contention->costs, summary.op_samples);
  }
  if (summary.rerun) PrintErrors(out, "the machine itself, the earlier run against this one", *summary.rerun);
  if (summary.ceiling) PrintErrors(out, "the machine itself, odd against even rounds", *summary.ceiling);
  out << fmt::format("the measurement itself: {} of one placement are {} % apart (median)",
                     summary.reference.empty() ? "steps" : "rounds", Percent(summary.median_step_spread));
  if (summary.disturbed_steps > 0) {
    out << fmt::format(", and other programs disturbed {} of {} steps", summary.disturbed_steps, summary.counted_steps);
  }
  out << "\n\n";
  std::vector<std::string> header = {"ops that explain most of the error", "device", "runs", "simulated", "measured"};
  if (summary.interleaved) header.insert(header.end(), {"between the steps, alone", "beside busy devices"});
  Table table(header);
  for (const experiments::OpError& op : summary.ops) {
    std::vector<std::string> row = {op.signature, op.device_kind, fmt::format("{}", op.runs),
                                    HumanReadableMicros(op.simulated_micros), HumanReadableMicros(op.measured_micros)};
    if (summary.interleaved) {
      row.push_back(HumanReadableMicros(op.alone_micros));
      row.push_back(HumanReadableMicros(op.beside_micros));
    }
    table.Add(row);
  }
  table.PrintText(out);
}

void WriteTimelines(const ValidateOptions& options, const Graph& graph, const Cluster& cluster,
                    const Simulator& simulator, const std::vector<experiments::SampledPlacement>& placements,
                    const std::vector<experiments::ValidationCase>& cases) {
  std::vector<FileToWrite> files =
      TimelineFile(options.simulated_timeline, simulator, graph, cluster, placements.front().placement);
  if (!options.timeline.empty()) {
    files.push_back({options.timeline, [&](std::ostream& out) {
                       WriteChromeTrace(out, cases.front().measured.timeline, graph, cluster);
                     }});
  }
  WriteFiles(files);
}

void PrintVerdict(std::ostream& out, const std::vector<std::string>& sentences) {
  out << '\n';
  for (const std::string& sentence : sentences) out << sentence << '\n';
}

// The reference for the others.
experiments::SampledPlacement Reference(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                                        const Simulator& simulator) {
  Placement placement = OnOneDevice(graph, cluster, costs, simulator);
  return {fmt::format("everything on {}", cluster.device(placement.devices().front()).name), std::move(placement)};
}

experiments::CheckedInRounds CheckInRounds(const ValidateOptions& options, const experiments::Validator& validator,
                                           const std::vector<experiments::SampledPlacement>& placements,
                                           const experiments::SampledPlacement& reference, const SearchStop& stop) {
  Progress progress("validate");
  const auto goes_on = [&stop] { return !stop(); };
  return validator.CheckInRounds(
      placements, reference, {.rounds = options.rounds, .seed = options.problem.settings.seed}, goes_on,
      [&](std::size_t visits, double micros) {
        progress.Show({.done = visits,
                       .total = placements.size() * options.rounds,
                       .things = "visits",
                       .note = stop.Interrupted() ? "stops after this round (Ctrl-C again stops at once)"
                                                  : "last " + HumanReadableMicros(micros)});
      });
}

std::vector<experiments::ValidationCase> CheckEach(const experiments::Validator& validator,
                                                   const std::vector<experiments::SampledPlacement>& placements,
                                                   const SearchStop& stop) {
  Progress progress("validate");
  std::vector<experiments::ValidationCase> cases;
  for (const experiments::SampledPlacement& one : placements) {
    if (!cases.empty() && stop()) break;
    cases.push_back(validator.Check(one.label, one.placement));
    progress.Show({.done = cases.size(),
                   .total = placements.size(),
                   .things = "placements",
                   .note = "last " + HumanReadableMicros(cases.back().measured.result.step_time_micros)});
  }
  return cases;
}

// The fastest probe of a core that the profile knows.
std::optional<double> ProbeOfCores(const std::string& path) {
  std::optional<double> fastest;
  for (const Profile::DeviceEntry& device : LoadProfile(path).devices) {
    if (device.probe_micros) fastest = std::min(fastest.value_or(*device.probe_micros), *device.probe_micros);
  }
  return fastest;
}

// The reason why it ended early.
std::string Ended(const ValidateOptions& options, const SearchStop& stop) {
  return stop.Interrupted() ? "it was interrupted" : fmt::format("--time-limit {:g} s was over", options.time_limit);
}

void CheckValidateOptions(const ValidateOptions& options) {
  if (options.placements.empty() && options.random == 0 && options.agent.empty()) {
    throw InputError("", "a placement is missing (--placement, --random or --agent)");
  }
  if (options.problem.costs.profile.empty() && options.problem.cluster.name.empty()) {
    throw InputError("", "--profile is missing: it says what ops and links cost (emplace profile writes one)");
  }
  if (!options.mostly.empty() && options.random == 0) throw InputError("--mostly", "needs --random");
  if (!options.problem.settings.start.empty() && options.agent.empty()) {
    throw InputError("--start", "needs --agent (whose search starts there)");
  }
  CheckProblem(options.problem);
  std::vector<std::string> inputs = InputFiles(options.problem);
  inputs.insert(inputs.end(), options.placements.begin(), options.placements.end());
  inputs.push_back(options.rerun_of);
  CheckFiles(inputs, {options.timeline, options.simulated_timeline});
}

int Run(ValidateOptions options) {
  if (!options.agent.empty()) options.problem.settings.agent = options.agent;
  CheckValidateOptions(options);
  options.hardware.statistic = *EnumOfName<profiler::HardwareOptions::Statistic>(options.statistic);
  options.hardware.seed = options.problem.settings.seed;
  const bool in_rounds = options.rounds > 0;
  // A visit of a round has few steps: there are many, and the reference's beside them.
  options.hardware.warmups = options.warmups.value_or(in_rounds ? 1 : options.hardware.warmups);
  options.hardware.steps = options.steps.value_or(in_rounds ? 2 : options.hardware.steps);
  if (in_rounds) options.hardware.patience_seconds /= static_cast<double>(options.rounds);
  const Graph graph = experiments::LoadGraph(options.problem.graph);
  const OpenDevices open(options.devices);
  const Cluster cluster = ClusterOf(options, open);
  const LoadedCosts loaded = LoadCosts(options.problem, graph, cluster);
  const CostTable& costs = loaded.table;
  const Simulator simulator = MakeSimulator(options.problem, graph, cluster, costs);
  agents::SearchSpec spec = MakeSearchSpec(options.problem, std::nullopt, graph, cluster, costs);
  if (!options.agent.empty()) {
    spec.given_start = FindStart(options.problem, std::nullopt, graph, cluster, costs, simulator);
  }
  const std::vector<experiments::SampledPlacement> placements = Collect(options, spec);
  std::vector<profiler::HardwareDevice*> devices;
  for (const Device& device : cluster.devices()) {
    for (profiler::HardwareDevice* const real : open.devices()) {
      if (real->name() == device.name) devices.push_back(real);
    }
  }
  if (!options.problem.costs.profile.empty())
    options.hardware.known_probe_micros = ProbeOfCores(options.problem.costs.profile);
  const auto hardware = WithLocation(options.problem.graph.file, [&] {
    return std::make_unique<profiler::HardwareRunner>(graph, cluster, devices, options.hardware);
  });
  const experiments::Validator validator(graph, cluster, costs, simulator, *hardware);
  std::map<std::string, experiments::EarlierCase> earlier;
  if (!options.rerun_of.empty()) {
    earlier = WithLocation(options.rerun_of, [&] {
      return experiments::ReadValidation(*OpenForReading(options.rerun_of, InputKind::kMeasurement));
    });
  }
  const SearchStop stop(options.time_limit);
  const profiler::LoadWatch load(devices);
  experiments::ValidationSummary summary;
  std::vector<experiments::ValidationCase> cases;
  if (in_rounds) {
    const experiments::SampledPlacement reference = Reference(graph, cluster, costs, simulator);
    experiments::CheckedInRounds checked = WithLocation(
        options.problem.graph.file, [&] { return CheckInRounds(options, validator, placements, reference, stop); });
    summary = validator.Summarise(checked);
    cases = std::move(checked.cases);
    if (summary.rounds < options.rounds && summary.compared > 0) {
      PrintMessage(fmt::format("validate: {} of {} rounds were run until {}", summary.rounds, options.rounds,
                               Ended(options, stop)));
    }
  } else {
    cases = WithLocation(options.problem.graph.file, [&] { return CheckEach(validator, placements, stop); });
    summary = validator.Summarise(cases);
    if (cases.size() < placements.size()) {
      PrintMessage(fmt::format("validate: {} of {} placements were run until {}", cases.size(), placements.size(),
                               Ended(options, stop)));
    }
  }
  if (!options.rerun_of.empty()) {
    summary.rerun = WithLocation(options.rerun_of, [&] { return experiments::CompareWithEarlier(earlier, cases); });
    if (!summary.rerun) throw InputError(options.rerun_of, "has none of these placements (a run of the same command)");
  }
  summary.load_advice = profiler::AdviceOnLoad(load.OthersBusyCores(), load.num_cores());
  WriteTimelines(options, graph, cluster, simulator, placements, cases);
  if (options.json) {
    experiments::WriteValidation(std::cout, graph, cluster, cases, summary);
  } else {
    PrintCases(std::cout, cases);
    PrintSummary(std::cout, summary);
    PrintVerdict(std::cout, experiments::Verdict(cases, summary));
  }
  if (!options.max_error) return kSuccess;
  const bool within = summary.compared > 0 && 100 * summary.simulated.step.median <= *options.max_error;
  if (within) return kSuccess;
  PrintMessage(fmt::format(
      "{}: the median error of the step time is {} %, over --max-error {} %", options.problem.graph.file,
      summary.compared > 0 ? Percent(summary.simulated.step.median) : "unknown (nothing fits)", *options.max_error));
  return kNotFound;
}

}  // namespace

Command AddValidate(CLI::App& app) {
  CLI::App* const command =
      app.add_subcommand("validate", "Run placements on real devices, and report the error of the simulator");
  auto options = std::make_shared<ValidateOptions>();
  AddGraphOption(*command, &options->problem);
  command->add_option("--placement", options->placements, "placement.json; may be given several times")
      ->type_name("FILE");
  command->add_option("--random", options->random, "Number of random placements of groups")
      ->type_name("N")
      ->transform(IntegerFrom(1, std::uint64_t{1} << 20U));
  command->add_option("--mostly", options->mostly, "With --random: put groups on this device nineteen times in twenty")
      ->type_name("DEVICE");
  command
      ->add_option("--agent", options->agent,
                   "Placements that this agent evaluates in the simulator, including its best one")
      ->type_name("NAME");
  command->add_option("--samples", options->samples, "How many of them")
      ->type_name("N")
      ->transform(IntegerFrom(1, std::uint64_t{1} << 20U))
      ->capture_default_str();
  command->add_option("--devices", options->devices, "Real devices: cpu:N is the N-th core, cuda:N a GPU")
      ->type_name("NAME,...")
      ->capture_default_str();
  command
      ->add_option("--cluster", options->problem.cluster.name,
                   "Cluster to simulate, whose devices have the names of the real ones (default: from the profile)")
      ->type_name("FILE");
  AddCostOptions(*command, &options->problem);
  AddSearchOptions(*command, &options->problem,
                   {"agent", "objective", "schedule", "micro_batches", "episodes", "incumbent", "validate_every"});
  command
      ->add_option(
          "--rerun-of", options->rerun_of,
          "Output of an earlier run of the same command with --json, to show how well measurements reproduce over time")
      ->type_name("FILE");
  command
      ->add_option("--rounds", options->rounds,
                   "Visit every placement once in each of N rounds, between steps of everything on one device; 0: "
                   "all steps of a placement at once")
      ->type_name("N")
      ->transform(IntegerFrom(0, 1000))
      ->capture_default_str();
  command
      ->add_option("--warmups", options->warmups,
                   "Uncounted warm-up steps at each visit (default: 1; 5 without rounds)")
      ->type_name("N")
      ->transform(IntegerFrom(0, std::uint64_t{1} << 20U));
  command->add_option("--steps", options->steps, "Counted steps at each visit (default: 2; 5 without rounds)")
      ->type_name("N")
      ->transform(IntegerFrom(1, std::uint64_t{1} << 20U));
  command
      ->add_option("--patience", options->hardware.patience_seconds,
                   "Seconds for each placement to repeat steps that other programs disturbed on a shared core")
      ->type_name("S")
      ->transform(NumberFrom(0, 3600))
      ->capture_default_str();
  command->add_flag("--interleave", options->hardware.interleave,
                    "Also time every op by itself between the steps, and simulate with these times too: on a shared "
                    "machine, this separates changes since the profile from errors of the simulator");
  command->add_option("--statistic", options->statistic, "Statistic of the counted steps: median or mean")
      ->type_name("NAME")
      ->check(CLI::IsMember({"median", "mean"}).description(""))
      ->capture_default_str();
  command
      ->add_option("--max-error", options->max_error,
                   "Exit with status 1 if the median error of the step time is over this percentage")
      ->type_name("PERCENT")
      ->transform(NumberFrom(0, 1e9));
  command
      ->add_option("--time-limit", options->time_limit,
                   "Begin no round (without rounds: no placement) after this many seconds but the first, and report on "
                   "those that "
                   "were run; 0: no limit")
      ->type_name("S")
      ->transform(NumberFrom(0, 1e6))
      ->capture_default_str();
  command->add_flag("--json", options->json, "Print everything as JSON (emplace.validation)");
  command
      ->add_option("--timeline", options->timeline,
                   "Write the measured timeline of the first placement as Chrome trace events for Perfetto")
      ->type_name("FILE");
  command
      ->add_option("--simulated-timeline", options->simulated_timeline,
                   "Write the simulated timeline of the first placement")
      ->type_name("FILE");
  return {command, [options] { return Run(*options); }};
}

}  // namespace emplace::tools
