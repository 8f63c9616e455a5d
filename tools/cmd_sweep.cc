// emplace sweep, and emplace trial, which sweep runs for each trial.

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "experiments/run/run_folder.h"
#include "experiments/run/run_reader.h"
#include "experiments/spec/experiment.h"
#include "experiments/spec/trial_plan.h"
#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "sim/base/printable.h"
#include "sim/base/table.h"
#include "tools/commands.h"
#include "tools/numbers.h"
#include "tools/sweep_estimate.h"
#include "tools/sweep_view.h"
#include "tools/terminal.h"
#include "tools/trial_pool.h"

namespace emplace::tools {
namespace {

namespace fs = std::filesystem;

constexpr int kStopped = 130;  // the shell's exit status for SIGINT

struct SweepOptions {
  std::string experiment;
  std::string output = "runs";
  std::size_t jobs = 0;  // 0: one per core
  bool dry_run = false;
};

bool RunsOnHardware(const experiments::ExperimentSpec& experiment) {
  return std::any_of(experiment.cells.begin(), experiment.cells.end(),
                     [](const experiments::ExperimentCell& cell) { return cell.hardware.NeedsHardware(); });
}

// Measurements on real devices must not disturb each other, so trials run one at a time.
std::size_t Processes(const SweepOptions& options, const experiments::ExperimentSpec& experiment) {
  if (RunsOnHardware(experiment)) return 1;
  return options.jobs > 0 ? options.jobs : std::max(1U, std::thread::hardware_concurrency());
}

void CheckJobs(const SweepOptions& options, const experiments::ExperimentSpec& experiment) {
  if (options.jobs > 1 && RunsOnHardware(experiment)) {
    throw InputError("--jobs",
                     fmt::format("is {}, but trials of {} run on real devices (1)", options.jobs, experiment.name));
  }
}

std::string SizeText(const experiments::ExperimentSpec& experiment, const experiments::TrialPlan& plan) {
  std::string text = fmt::format("{}: {} in {}", experiment.name, Counted(plan.trials.size(), "trial"),
                                 Counted(experiment.cells.size(), "cell"));
  if (experiment.excluded > 0) text += fmt::format(", {} excluded", Counted(experiment.excluded, "cell"));
  if (plan.merged > 0)
    text += fmt::format(", {} left out that would be another one again", Counted(plan.merged, "trial"));
  return text;
}

// Lists every trial and estimates the total time.
int DryRun(const SweepOptions& options, const experiments::ExperimentSpec& experiment,
           const experiments::TrialPlan& plan) {
  std::vector<std::string> header = {"trial", "agent"};
  for (const experiments::SweepCell::Setting& setting : experiment.cells.front().values.settings) {
    if (setting.path != "agent" && setting.path != "agent.label") header.push_back(setting.path);
  }
  header.insert(header.end(), {"graph", "seed", "evaluations", "seconds"});
  Table table(header);
  SweepEstimator estimator(experiment);
  double seconds = 0;
  std::set<std::string> untimed;
  for (const experiments::PlannedTrial& trial : plan.trials) {
    const experiments::ExperimentCell& cell = experiment.cells[trial.cell];
    const TrialEstimate estimate = estimator.Estimate(trial);
    if (!estimate.policy_seconds) untimed.insert(cell.agent.label);
    const double all = estimate.simulator_seconds + estimate.policy_seconds.value_or(0);
    seconds += all;
    std::vector<std::string> row = {trial.id, cell.agent.label};
    for (const experiments::SweepCell::Setting& setting : cell.values.settings) {
      if (setting.path != "agent" && setting.path != "agent.label")
        row.push_back(experiments::SettingText(setting.value));
    }
    row.insert(row.end(), {trial.graph, fmt::format("{}", trial.seed), fmt::format("{}", estimate.evaluations),
                           fmt::format("{:.1f}", all)});
    table.Add(std::move(row));
  }
  table.PrintText(std::cout);
  const std::size_t processes = std::min(Processes(options, experiment), plan.trials.size());
  std::cout << fmt::format("\n{}; about {} in {}, agents and simulator together\n",
                           Printable(SizeText(experiment, plan)),
                           TimeForPeople(seconds / static_cast<double>(processes)), Counted(processes, "process"));
  if (!untimed.empty()) {
    std::cout << Printable(fmt::format("simulator time only for {}", fmt::join(untimed, ", "))) << '\n';
  }
  return kDone;
}

void CheckOutput(const SweepOptions& options) {
  if (options.output.empty() || options.output == "-") {
    throw InputError("--output", "is \"" + options.output + "\" (a folder)");
  }
  std::error_code ignored;
  if (fs::exists(options.output, ignored) && !fs::is_directory(options.output, ignored)) {
    throw InputError(options.output, "is not a folder");
  }
}

// Trials in the folder that are not, or no longer, part of the experiment.
std::size_t CountOthers(const std::string& folder, const experiments::TrialPlan& plan) {
  std::set<std::string> ids;
  for (const experiments::PlannedTrial& trial : plan.trials) ids.insert(trial.id);
  std::size_t others = 0;
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.is_directory() && !ids.contains(entry.path().filename().string())) ++others;
  }
  return others;
}

class Sweep {
 public:
  Sweep(const SweepOptions& options, const experiments::ExperimentSpec& experiment, const experiments::TrialPlan& plan)
      : options_(options),
        experiment_(experiment),
        plan_(plan),
        folder_((fs::absolute(options.output) / experiment.name).string()) {}

  int Run() {
    experiments::WriteExperimentFile(folder_, experiment_);
    const std::size_t processes = Processes(options_, experiment_);
    bool whole = true;
    std::size_t failed = 0;
    std::size_t finished = 0;
    {
      SweepView view(experiment_, plan_, processes);
      std::vector<TrialJob> jobs = Prepare(&view);
      view.Say(fmt::format("{}; {} finished already, {} to run in {}", SizeText(experiment_, plan_), view.finished(),
                           jobs.size(),
                           Counted(std::min(processes, std::max<std::size_t>(jobs.size(), 1)), "process")));
      if (const std::size_t others = CountOthers(folder_, plan_); others > 0) {
        view.Say(fmt::format("{} holds {} that this experiment does not have: reports will show them", folder_,
                             Counted(others, "trial")));
      }
      TrialPool pool(processes);
      whole = pool.Run(
          std::move(jobs), [&](const TrialEnd& end) { Ended(end, &view); },
          [&](std::size_t running) { view.Draw(running); });
      failed = view.failed();
      finished = view.finished();
    }
    if (!whole) {
      Say(fmt::format("{}: stopped, {} of {} trials are finished; the same command resumes", experiment_.name, finished,
                      plan_.trials.size()));
      return kStopped;
    }
    return Conclude(failed);
  }

 private:
  // The trials that are not finished.
  std::vector<TrialJob> Prepare(SweepView* view) const {
    std::vector<TrialJob> jobs;
    for (std::size_t i = 0; i < plan_.trials.size(); ++i) {
      const std::string folder = experiments::PrepareTrialFolder(folder_, plan_.trials[i]);
      if (experiments::IsFinished(folder)) {
        experiments::ReadFinishedTrial(folder);  // reports a broken trial now, not after all others
        view->SkipFinished(plan_.trials[i]);
      } else {
        jobs.push_back({.number = i, .folder = folder});
      }
    }
    // A machine can be slow for minutes. IDs are hashes, so this order spreads each agent's trials over the whole run.
    if (RunsOnHardware(experiment_)) {
      std::sort(jobs.begin(), jobs.end(), [&](const TrialJob& a, const TrialJob& b) {
        return plan_.trials[a.number].id < plan_.trials[b.number].id;
      });
    }
    return jobs;
  }

  void Ended(const TrialEnd& end, SweepView* view) const {
    const experiments::PlannedTrial& trial = plan_.trials[end.number];
    const std::string folder = (fs::path(folder_) / trial.id).string();
    if (end.failed) {
      view->Fail(trial, experiments::ReadTrialError(folder));
      return;
    }
    if (!end.said.empty()) view->Say(end.said.substr(0, end.said.find_last_not_of('\n') + 1));
    view->Finish(trial, experiments::SummariseTrial(folder));
  }

  int Conclude(std::size_t failed) const {
    ImprovementTable(experiment_, plan_, folder_).PrintText(std::cout);
    std::cout << fmt::format("\nemplace report {}\n",
                             Printable((fs::path(options_.output) / experiment_.name).string()));
    if (failed == 0) return kDone;
    std::cout.flush();
    Say(fmt::format("{}: {} of {} failed (error.txt in its folder of {} says why); the same command tries again",
                    experiment_.name, failed, Counted(plan_.trials.size(), "trial"), folder_));
    return kNo;
  }

  const SweepOptions& options_;
  const experiments::ExperimentSpec& experiment_;
  const experiments::TrialPlan& plan_;
  std::string folder_;
};

int Run(const SweepOptions& options) {
  CheckOutput(options);
  const experiments::ExperimentSpec experiment =
      experiments::ReadExperiment(*OpenForReading(options.experiment), options.experiment);
  CheckJobs(options, experiment);
  const experiments::TrialPlan plan = experiments::PlanTrials(experiment);
  if (options.dry_run) return DryRun(options, experiment, plan);
  return Sweep(options, experiment, plan).Run();
}

int RunOneTrial(const std::string& folder) {
  switch (experiments::RunTrialFolder(folder)) {
    case experiments::TrialOutcome::kDone:
      return kDone;
    case experiments::TrialOutcome::kFailed:
      Say(experiments::ReadTrialError(folder));
      return kNo;
    case experiments::TrialOutcome::kBusy:
      break;
  }
  Say(folder + ": another process runs this trial");
  return kBusy;
}

}  // namespace

Command AddSweep(CLI::App& app) {
  CLI::App* const command = app.add_subcommand("sweep", "Run every trial of an experiment, or those that are left");
  auto options = std::make_shared<SweepOptions>();
  command->add_option("experiment", options->experiment, "experiment.yaml")->required()->type_name("FILE");
  command
      ->add_option("-o,--output", options->output,
                   "Folder of runs: what is finished there is kept, stopped trials resume (default: runs)")
      ->type_name("RUNS");
  command->add_option("--jobs", options->jobs, "Trials at one time, each on one core (default: one for each core)")
      ->type_name("N")
      ->transform(IntegerFrom(1, 1024));
  command->add_flag("--dry-run", options->dry_run, "List the trials with an estimate of time; run and write nothing");
  return {command, [options] { return Run(*options); }};
}

Command AddTrial(CLI::App& app) {
  CLI::App* const command = app.add_subcommand("trial", "Run the trial of a folder of runs");
  command->group("");  // for `sweep` only, so hidden in --help
  auto folder = std::make_shared<std::string>();
  command->add_option("folder", *folder, "RUNS/EXPERIMENT/TRIAL, which holds spec.json")->required()->type_name("DIR");
  return {command, [folder] { return RunOneTrial(*folder); }};
}

}  // namespace emplace::tools
