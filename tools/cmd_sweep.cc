// emplace sweep.

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "experiments/run/plan_file.h"
#include "experiments/run/run_folder.h"
#include "experiments/run/run_reader.h"
#include "experiments/spec/experiment.h"
#include "experiments/spec/trial_plan.h"
#include "sim/base/check.h"
#include "sim/base/json_text.h"
#include "sim/base/printable.h"
#include "sim/base/table.h"
#include "tools/commands.h"
#include "tools/numbers.h"
#include "tools/planned_sweep.h"
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
  bool plan = false;
};

// Measurements on real devices must not disturb each other, so trials run one at a time.
std::size_t Processes(const SweepOptions& options, const PlannedSweep& sweep) {
  if (sweep.RunsOnHardware()) return 1;
  return options.jobs > 0 ? options.jobs : std::max(1U, std::thread::hardware_concurrency());
}

void CheckJobs(const SweepOptions& options, const PlannedSweep& sweep) {
  if (options.jobs > 1 && sweep.RunsOnHardware()) {
    throw InputError(
        "--jobs", fmt::format("is {}, but trials of {} run on real devices (1)", options.jobs, sweep.experiment.name));
  }
}

// Lists every trial and estimates the total time.
int DryRun(const SweepOptions& options, const PlannedSweep& sweep) {
  const experiments::ExperimentSpec& experiment = sweep.experiment;
  const experiments::TrialPlan& plan = sweep.plan;
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
  const std::size_t processes = std::min(Processes(options, sweep), plan.trials.size());
  std::cout << fmt::format("\n{}; about {} in {}, agents and simulator together\n", Printable(SizeText(sweep)),
                           TimeForPeople(seconds / static_cast<double>(processes)), Counted(processes, "process"));
  if (!untimed.empty()) {
    std::cout << Printable(fmt::format("simulator time only for {}", fmt::join(untimed, ", "))) << '\n';
  }
  return kDone;
}

// Trials in the folder that are not, or no longer, part of the experiment.
std::size_t CountOthers(const PlannedSweep& sweep) {
  std::set<std::string> known(sweep.folders.begin(), sweep.folders.end());
  std::size_t others = 0;
  for (const std::string& folder : experiments::ListTrialFolders(sweep.folder)) {
    if (!known.contains((fs::path(sweep.folder) / folder).string())) ++others;
  }
  return others;
}

// One worker and its view.
class Sweep {
 public:
  Sweep(const SweepOptions& options, const PlannedSweep& sweep) : options_(options), sweep_(sweep) {}

  int Run() {
    WritePlannedSweep(sweep_);
    PoolResult result{};
    std::size_t failed = 0;
    std::size_t finished = 0;
    {
      SweepView view(sweep_.experiment, sweep_.plan, Processes(options_, sweep_));
      result = RunTrials(&view);
      failed = view.failed();
      finished = view.finished();
    }
    const std::size_t trials = sweep_.plan.trials.size();
    if (result == PoolResult::kStopped) {
      Say(fmt::format("{}: stopped, {} of {} trials are finished; the same command resumes", name(), finished, trials));
      return kStopped;
    }
    if (!differing_.empty()) {
      Say(DifferenceText(differing_));
      return kBug;
    }
    if (result == PoolResult::kKeepsFailing) {
      Say(fmt::format("{}: stopped, because trials keep crashing at once: {} of {} are finished, {} failed", name(),
                      finished, trials, failed));
      return kNo;
    }
    return Conclude(failed);
  }

 private:
  const std::string& name() const { return sweep_.experiment.name; }

  PoolResult RunTrials(SweepView* view) {
    const std::size_t processes = Processes(options_, sweep_);
    std::vector<TrialJob> jobs = Unfinished(view);
    view->Say(fmt::format("{}; {} finished already, {} to run in {}", SizeText(sweep_), view->finished(), jobs.size(),
                          Counted(std::min(processes, std::max<std::size_t>(jobs.size(), 1)), "process")));
    if (const std::size_t others = CountOthers(sweep_); others > 0) {
      view->Say(fmt::format("{} holds {} that this experiment does not have: reports will show them", sweep_.folder,
                            Counted(others, "trial")));
    }
    TrialPool pool({.processes = processes});
    return pool.Run(std::move(jobs), {.before_start =
                                          [&](const TrialJob& job) {
                                            experiments::PrepareTrialFolder(
                                                job.folder, JsonText(sweep_.plan.trials[job.number].spec));
                                          },
                                      .on_end = [&](const TrialEnd& end) { Ended(end, view); },
                                      .on_note = [&](const std::string& note) { view->Say(note); },
                                      .on_wait = [&](std::size_t running) { view->Draw(running); }});
  }

  std::vector<TrialJob> Unfinished(SweepView* view) const {
    std::vector<TrialJob> jobs;
    for (std::size_t i = 0; i < sweep_.folders.size(); ++i) {
      const std::string& folder = sweep_.folders[i];
      if (experiments::IsFinished(folder)) {
        experiments::ReadFinishedTrial(folder);  // reports a broken trial now, not after all others
        view->SkipFinished(sweep_.plan.trials[i]);
      } else {
        jobs.push_back({.number = i, .folder = folder});
      }
    }
    // A machine can be slow for minutes. IDs are hashes, so this order spreads each agent's trials over the whole run.
    if (sweep_.RunsOnHardware()) {
      std::sort(jobs.begin(), jobs.end(), [&](const TrialJob& a, const TrialJob& b) {
        return sweep_.plan.trials[a.number].id < sweep_.plan.trials[b.number].id;
      });
    }
    return jobs;
  }

  void Ended(const TrialEnd& end, SweepView* view) {
    const experiments::PlannedTrial& trial = sweep_.plan.trials[end.number];
    const std::string& folder = sweep_.folders[end.number];
    if (end.failed) {
      view->Fail(trial, experiments::ReadTrialError(folder));
      return;
    }
    if (end.differs) differing_.push_back(folder);
    if (!end.said.empty()) view->Say(end.said.substr(0, end.said.find_last_not_of('\n') + 1));
    view->Finish(trial, experiments::SummariseTrial(folder));
  }

  int Conclude(std::size_t failed) const {
    ImprovementTable(sweep_.experiment, sweep_.plan, sweep_.folders).PrintText(std::cout);
    std::cout << fmt::format("\nemplace report {}\n", Printable((fs::path(options_.output) / name()).string()));
    if (failed == 0) return kDone;
    std::cout.flush();
    Say(fmt::format("{}: {} of {} failed (error.txt in its folder of {} says why); the same command tries again",
                    name(), failed, Counted(sweep_.plan.trials.size(), "trial"), sweep_.folder));
    return kNo;
  }

  const SweepOptions& options_;
  const PlannedSweep& sweep_;
  std::vector<std::string> differing_;
};

int Run(const SweepOptions& options) {
  const PlannedSweep sweep = PlanSweep(options.experiment, options.output);
  CheckJobs(options, sweep);
  if (options.dry_run) return DryRun(options, sweep);
  if (options.plan) {
    WritePlannedSweep(sweep);
    const std::string runs = (fs::path(options.output) / sweep.experiment.name).string();
    std::cout << Printable(fmt::format("{}; emplace worker {}", SizeText(sweep), runs)) << '\n';
    return kDone;
  }
  return Sweep(options, sweep).Run();
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
  command->add_flag("--plan", options->plan, "Write the plan, from which `emplace worker` runs the trials; run none")
      ->excludes("--dry-run");
  return {command, [options] { return Run(*options); }};
}

}  // namespace emplace::tools
