// emplace sweep.

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "experiments/plan/experiment.h"
#include "experiments/plan/hardware_choice.h"
#include "experiments/plan/problem.h"
#include "experiments/plan/trial_plan.h"
#include "experiments/report/plan_sweep.h"
#include "experiments/report/results.h"
#include "experiments/run/plan_file.h"
#include "experiments/run/planned_sweep.h"
#include "experiments/run/run_folder.h"
#include "experiments/run/sweep_estimate.h"
#include "experiments/run/sweep_run.h"
#include "experiments/run/sweep_view.h"
#include "sim/base/exit_status.h"
#include "sim/base/human_readable.h"
#include "sim/base/json_struct.h"
#include "sim/base/json_text.h"
#include "sim/base/printable.h"
#include "sim/base/progress.h"
#include "sim/base/table.h"
#include "tools/cli/commands.h"
#include "tools/cli/numbers.h"
#include "tools/cli/search.h"

namespace emplace::tools {
namespace {

namespace fs = std::filesystem;

struct SweepOptions {
  std::string experiment;
  std::string output = "runs";
  std::size_t jobs = 0;  // 0: one per core
  bool dry_run = false;
  bool plan = false;
};

// "0.4 to 2.5"; of an agent whose time is not known, "0.4 or more".
std::string RangeText(const experiments::TrialEstimate& estimate) {
  const auto text = [](double seconds) {
    return seconds < 10 ? fmt::format("{:.2g}", seconds) : fmt::format("{:.0f}", seconds);
  };
  return text(estimate.low_seconds) + (estimate.is_bounded ? " to " + text(estimate.high_seconds) : " or more");
}

// Lists every trial and estimates the total time.
int DryRun(const SweepOptions& options, const experiments::PlannedSweep& sweep) {
  const experiments::ExperimentSpec& experiment = sweep.experiment;
  const experiments::TrialPlan& plan = sweep.plan;
  std::vector<std::string> header = {"trial", "agent"};
  for (const experiments::SweepCell::Setting& setting : experiment.cells.front().values.settings) {
    if (setting.path != "agent" && setting.path != "agent.label") header.push_back(setting.path);
  }
  header.insert(header.end(), {"graph", "seed", "evaluations", "seconds"});
  Table table(header);
  experiments::SweepEstimator estimator(experiment);
  double low = 0;
  double high = 0;
  std::set<std::string> untimed;
  std::optional<Progress> progress("estimate");
  std::size_t estimated = 0;
  for (const experiments::PlannedTrial& trial : plan.trials) {
    const experiments::ExperimentCell& cell = experiment.cells[trial.cell];
    const experiments::TrialEstimate estimate = estimator.Estimate(trial);
    progress->Show({.done = ++estimated, .total = plan.trials.size(), .things = "trials"});
    if (!estimate.is_bounded) untimed.insert(cell.label);
    low += estimate.low_seconds;
    high += estimate.high_seconds;
    std::vector<std::string> row = {trial.id, cell.label};
    for (const experiments::SweepCell::Setting& setting : cell.values.settings) {
      if (setting.path != "agent" && setting.path != "agent.label") row.push_back(setting.text);
    }
    row.insert(row.end(), {trial.graph, fmt::format("{}", trial.seed), fmt::format("{}", estimate.evaluations),
                           RangeText(estimate)});
    table.Add(std::move(row));
  }
  progress.reset();
  table.PrintText(std::cout);
  const std::size_t processes = std::min(experiments::ProcessesOf(options.jobs, sweep), plan.trials.size());
  const auto each = static_cast<double>(processes);
  std::cout << fmt::format("\n{}; {} to {} in {}, agents and simulator together\n",
                           Printable(experiments::SizeText(sweep)), HumanReadableSeconds(low / each),
                           HumanReadableSeconds(high / each), Counted(processes, "process"));
  if (!untimed.empty()) {
    std::cout << Printable(
                     fmt::format("without the time of {}, which may be slow to respond", fmt::join(untimed, ", ")))
              << '\n';
  }
  return kSuccess;
}

// Trials in the folder that are not, or no longer, part of the experiment.
std::size_t CountOthers(const experiments::PlannedSweep& sweep) {
  std::set<std::string> known(sweep.folders.begin(), sweep.folders.end());
  std::size_t others = 0;
  for (const std::string& folder : experiments::ListTrialFolders(sweep.folder)) {
    if (!known.contains((fs::path(sweep.folder) / folder).string())) ++others;
  }
  return others;
}

// Other trials that reports will include besides those of the experiment.
std::string OtherTrialsNote(const experiments::PlannedSweep& sweep) {
  const std::size_t others = CountOthers(sweep);
  if (others == 0) return "";
  return fmt::format("{} holds {} that this experiment does not have: reports will show them", sweep.folder,
                     Counted(others, "trial"));
}

// Trials on real devices that are left must find these here. Throws InputError.
void CheckRealDevices(const experiments::PlannedSweep& sweep) {
  std::set<std::string> checked;
  for (std::size_t i = 0; i < sweep.plan.trials.size(); ++i) {
    const experiments::TrialChoice& choice = sweep.plan.trials[i].choice;
    if (!choice.NeedsHardware() || experiments::IsFinished(sweep.folders[i])) continue;
    if (!checked.insert(JsonText({FieldsToJson(choice.cluster)})).second) continue;
    WithLocation(sweep.experiment.path, [&] {
      experiments::CheckRealDevices(
          experiments::KeepChosen(experiments::LoadWholeCluster(choice.cluster), choice.cluster));
    });
  }
}

// An experiment whose cells are plans.
int RunPlans(const SweepOptions& options) {
  const experiments::SweepOfPlans sweep = experiments::ReadPlanSweep(options.experiment);
  if (options.plan) throw InputError("--plan", "does not go with an experiment of plans (they are quick)");
  if (options.dry_run) {
    for (const experiments::PlanSweepCell& cell : sweep.cells) {
      std::cout << Printable(JsonText({FieldsToJson(cell)})) << '\n';
    }
    std::cout << fmt::format("{}\n", Counted(sweep.cells.size(), "cell"));
    return kSuccess;
  }
  const std::string folder = (fs::path(options.output) / sweep.name).string();
  SearchStop stop(0);
  {
    Progress progress("sweep");
    experiments::RunPlanSweep(
        sweep, folder, options.jobs,
        [&](std::size_t done) { progress.Show({.done = done, .total = sweep.cells.size(), .things = "cells"}); },
        [&] { return stop(); });
  }
  experiments::PrintText(std::cout, experiments::PlanSweepTable(sweep, experiments::ReadPlanResults(sweep, folder)));
  std::cout << fmt::format("\nemplace report {}\n", Printable(folder));
  return stop.Interrupted() ? SignalStatus(stop.signal()) : kSuccess;
}

int Run(const SweepOptions& options) {
  if (experiments::IsPlanSweep(options.experiment)) return RunPlans(options);
  const experiments::PlannedSweep sweep = experiments::PlanSweep(options.experiment, options.output);
  experiments::CheckJobs(options.jobs, sweep);
  if (!options.plan) CheckRealDevices(sweep);
  if (options.dry_run) return DryRun(options, sweep);
  if (options.plan) {
    experiments::WritePlannedSweep(sweep);
    const std::string runs = (fs::path(options.output) / sweep.experiment.name).string();
    std::cout << Printable(fmt::format("{}; emplace worker {}", experiments::SizeText(sweep), runs)) << '\n';
    return kSuccess;
  }
  experiments::WritePlannedSweep(sweep);
  const experiments::SweepOutcome outcome = experiments::RunSweep(sweep, options.jobs, OtherTrialsNote(sweep));
  if (!outcome.has_ended) return outcome.status;
  const experiments::ExperimentRuns runs = experiments::RunsOf(sweep);
  if (!runs.trials.empty()) experiments::PrintText(std::cout, experiments::ImprovementTable(runs));
  const std::vector<std::string> notes = experiments::SingleOpsNotes(runs.trials);
  for (const std::string& note : notes) std::cout << '\n' << Printable(note) << '\n';
  std::cout << fmt::format("\nemplace report {}\n",
                           Printable((fs::path(options.output) / sweep.experiment.name).string()));
  std::cout.flush();
  experiments::PrintFailedTrials(sweep, outcome.failed);
  return outcome.status;
}

}  // namespace

Command AddSweep(CLI::App& app) {
  CLI::App* const command = app.add_subcommand("sweep", "Run the trials of an experiment, or resume them");
  auto options = std::make_shared<SweepOptions>();
  command->add_option("experiment", options->experiment, "experiment.yaml")->required()->type_name("FILE");
  command
      ->add_option("-o,--output", options->output,
                   "Folder of runs: finished trials in it are kept, stopped ones resume (default: runs)")
      ->type_name("RUNS");
  command
      ->add_option("--jobs", options->jobs,
                   "Number of trials to run at once, each on one core (default: one for each core)")
      ->type_name("N")
      ->transform(IntegerFrom(1, 1024));
  command->add_flag("--dry-run", options->dry_run,
                    "List the trials with estimated times, without running anything or writing files");
  command->add_flag("--plan", options->plan, "Write the plan for `emplace worker` without running any trials")
      ->excludes("--dry-run");
  return {command, [options] { return Run(*options); }};
}

}  // namespace emplace::tools
