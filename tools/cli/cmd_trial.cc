// emplace trial, which workers run for their trials.

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "experiments/run/run_folder.h"
#include "experiments/run/trial_pool.h"
#include "experiments/run/trial_runner.h"
#include "sim/base/check.h"
#include "sim/base/exit_status.h"
#include "sim/base/terminal.h"
#include "tools/cli/commands.h"
#include "tools/cli/numbers.h"

namespace emplace::tools {
namespace {

constexpr int kBusy = 75;  // EX_TEMPFAIL

struct TrialOptions {
  std::string folder;
  std::uint64_t lease_ms = 0;  // serve; 0: run the one of `folder`
};

int RunOneTrial(const std::string& folder) {
  switch (experiments::RunTrialFolder(folder)) {
    case experiments::TrialOutcome::kDone:
    case experiments::TrialOutcome::kInterrupted:
      return kSuccess;
    case experiments::TrialOutcome::kFailed:
      PrintMessage(experiments::ReadTrialError(folder));
      return kNotFound;
    case experiments::TrialOutcome::kDiffers:
      PrintMessage(experiments::DifferenceText({folder}));
      return kBug;
    case experiments::TrialOutcome::kBusy:
    case experiments::TrialOutcome::kLost:
      break;
  }
  PrintMessage(folder + ": another process runs this trial");
  return kBusy;
}

int Run(const TrialOptions& options) {
  if (options.lease_ms > 0) return experiments::ServeTrials(std::chrono::milliseconds(options.lease_ms));
  if (options.folder.empty()) throw InputError("folder", "is missing (RUNS/EXPERIMENT/TRIAL)");
  return RunOneTrial(options.folder);
}

}  // namespace

Command AddTrial(CLI::App& app) {
  CLI::App* const command = app.add_subcommand("trial", "Run the trial of a folder of runs");
  command->group("");  // for workers only, so hidden in --help
  auto options = std::make_shared<TrialOptions>();
  command->add_option("folder", options->folder, "RUNS/EXPERIMENT/TRIAL, which holds spec.json")->type_name("DIR");
  command->add_option("--serve", options->lease_ms, "Run those that standard input names, each with such a lease")
      ->type_name("MILLISECONDS")
      ->transform(IntegerFrom(1));
  return {command, [options] { return Run(*options); }};
}

}  // namespace emplace::tools
