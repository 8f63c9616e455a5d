// emplace submit.

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "experiments/run/planned_sweep.h"
#include "experiments/run/worker_script.h"
#include "sim/base/check.h"
#include "sim/base/exit_status.h"
#include "sim/base/printable.h"
#include "tools/cli/commands.h"
#include "tools/cli/numbers.h"

namespace emplace::tools {
namespace {

struct SubmitOptions {
  std::string experiment;
  std::string output = "runs";
  bool slurm = false;
  std::size_t workers = 1;
  std::size_t jobs = 1;
  double lease_seconds = 0;  // 0: the worker's default
  bool print = false;
};

experiments::WorkerScript ScriptOf(const SubmitOptions& options, const experiments::PlannedSweep& sweep,
                                   const std::vector<std::string>& sbatch_options) {
  return {.program = std::filesystem::read_symlink("/proc/self/exe").string(),
          .experiment = sweep.experiment.name,
          .folder = sweep.folder,
          .workers = std::min(options.workers, sweep.plan.trials.size()),
          .jobs = options.jobs,
          .lease_seconds = options.lease_seconds,
          .sbatch_options = experiments::SbatchLines(sbatch_options)};
}

int Run(const SubmitOptions& options, const std::vector<std::string>& sbatch_options) {
  if (!options.slurm && !sbatch_options.empty()) {
    throw InputError("", fmt::format("unknown: {} (options of sbatch need --slurm; see emplace submit --help)",
                                     sbatch_options.front()));
  }
  if (!options.slurm && !options.print) {
    throw InputError("--slurm", "is missing (or --print, for a shell script that any scheduler can start)");
  }
  const experiments::PlannedSweep sweep = experiments::PlanSweep(options.experiment, options.output);
  if (sweep.RunsOnHardware()) {
    throw InputError(options.experiment, "has trials that run on real devices, one at a time (emplace sweep)");
  }
  const experiments::WorkerScript script = ScriptOf(options, sweep, sbatch_options);
  const std::string text = options.slurm ? experiments::SlurmScript(script) : experiments::ShellScript(script);
  if (options.slurm && !options.print) experiments::FindSbatch();  // before anything is written
  experiments::WritePlannedSweep(sweep);
  if (options.print) {
    std::cout << text;
    return kSuccess;
  }
  const std::string job = experiments::SubmitToSlurm(script, text);
  const std::string runs = (std::filesystem::path(options.output) / sweep.experiment.name).string();
  std::cout << Printable(fmt::format("{}; job {} with {}", experiments::SizeText(sweep), job,
                                     Counted(script.workers, "worker")))
            << '\n'
            << Printable("emplace status " + runs) << '\n';
  return kSuccess;
}

}  // namespace

Command AddSubmit(CLI::App& app) {
  CLI::App* const command =
      app.add_subcommand("submit", "Plan a sweep, and start workers for it on the machines of a cluster");
  auto options = std::make_shared<SubmitOptions>();
  command->add_option("experiment", options->experiment, "experiment.yaml")->required()->type_name("FILE");
  command
      ->add_option("-o,--output", options->output,
                   "Folder of runs on a shared file system: finished trials in it are kept (default: runs)")
      ->type_name("RUNS");
  command->add_flag("--slurm", options->slurm,
                    "Submit an array of Slurm jobs; unknown options, such as --partition=cpu or --time=4:00:00, are "
                    "passed to sbatch");
  command->add_option("--workers", options->workers, "Number of workers, one job each (default: 1)")
      ->type_name("N")
      ->transform(IntegerFrom(1, 100000));
  command
      ->add_option("--jobs", options->jobs,
                   "Number of trials that a worker runs at once, each on one core (default: 1)")
      ->type_name("N")
      ->transform(IntegerFrom(1, 1024));
  command->add_option("--lease", options->lease_seconds, "As for `emplace worker` (default: 180)")
      ->type_name("SECONDS")
      ->transform(NumberFrom(1, 86400));
  command->add_flag("--print", options->print,
                    "Plan the sweep, and print the script instead of starting it: with --slurm a Slurm script, else a "
                    "shell script to start once on each machine");
  command->allow_extras();
  return {command, [options, command] { return Run(*options, command->remaining()); }};
}

}  // namespace emplace::tools
