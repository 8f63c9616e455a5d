#include "experiments/run/planned_sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <unordered_set>

#include "experiments/run/plan_file.h"
#include "experiments/run/run_folder.h"
#include "sim/base/check.h"
#include "sim/base/file_io.h"
#include "sim/base/json_text.h"
#include "sim/base/printable.h"

namespace emplace::experiments {
namespace {

namespace fs = std::filesystem;

void CheckRunsFolder(const std::string& runs) {
  if (runs.empty() || runs == "-") throw InputError("output", "is \"" + runs + "\" (a folder)");
  std::error_code ignored;
  if (fs::exists(runs, ignored) && !fs::is_directory(runs, ignored)) throw InputError(runs, "is not a folder");
}

// Folders that exist before the plan is written.
std::unordered_set<std::string> Present(const PlannedSweep& sweep) {
  std::unordered_set<std::string> present;
  for (const std::string& folder : ListTrialFolders(sweep.folder)) {
    present.insert((fs::path(sweep.folder) / folder).string());
  }
  return present;
}

}  // namespace

bool PlannedSweep::RunsOnHardware() const {
  return std::any_of(experiment.cells.begin(), experiment.cells.end(),
                     [](const ExperimentCell& cell) { return cell.NeedsHardware(); });
}

PlannedSweep PlanSweep(const std::string& experiment_file, const std::string& runs) {
  CheckRunsFolder(runs);
  return PlanSweep(*OpenForReading(experiment_file, InputKind::kExperiment), experiment_file, runs);
}

PlannedSweep PlanSweep(std::istream& experiment, const std::string& name, const std::string& runs) {
  CheckRunsFolder(runs);
  PlannedSweep sweep{.experiment = ReadExperiment(experiment, name)};
  sweep.plan = PlanTrials(sweep.experiment);
  sweep.folder = (fs::absolute(runs).lexically_normal() / sweep.experiment.name).string();
  for (const std::string& folder : ChooseTrialFolders(sweep.folder, sweep.plan)) {
    sweep.folders.push_back((fs::path(sweep.folder) / folder).string());
  }
  return sweep;
}

PlannedSweep PartOf(const PlannedSweep& sweep, const std::vector<std::size_t>& trials) {
  PlannedSweep part{.experiment = sweep.experiment, .folder = sweep.folder, .part_of = sweep.plan.trials.size()};
  for (const std::size_t trial : trials) {
    part.plan.trials.push_back(sweep.plan.trials[trial]);
    part.folders.push_back(sweep.folders[trial]);
  }
  return part;
}

void WritePlannedSweep(const PlannedSweep& sweep) { WritePlannedSweep(sweep, sweep); }

void WritePlannedSweep(const PlannedSweep& sweep, const PlannedSweep& part) {
  WriteExperimentFile(sweep.folder, sweep.experiment);
  std::vector<std::string> relative;
  relative.reserve(sweep.folders.size());
  for (const std::string& folder : sweep.folders) relative.push_back(folder.substr(sweep.folder.size() + 1));
  WritePlanFile(sweep.folder, sweep.experiment.name, sweep.plan, relative, sweep.RunsOnHardware());
  const bool all_folders = sweep.folders.size() <= kMostTrialsInAFolder;
  const std::unordered_set<std::string> present = Present(sweep);
  for (std::size_t i = 0; i < sweep.folders.size(); ++i) {
    const bool is_present = present.contains(sweep.folders[i]);
    if (all_folders || is_present) {
      PrepareTrialFolder(sweep.folders[i], JsonText(sweep.plan.trials[i].spec));
    }
  }
  for (const std::string& folder : part.folders) {
    if (present.contains(folder) && !IsFinished(folder)) ForgetTrialError(folder);
  }
}

std::string SizeText(const PlannedSweep& sweep) {
  if (sweep.part_of != 0) {
    return fmt::format("{}: {} of {}", sweep.experiment.name, sweep.plan.trials.size(),
                       Counted(sweep.part_of, "trial"));
  }
  std::string text = fmt::format("{}: {} in {}", sweep.experiment.name, Counted(sweep.plan.trials.size(), "trial"),
                                 Counted(sweep.experiment.cells.size(), "cell"));
  if (sweep.experiment.excluded > 0) text += fmt::format(", {} excluded", Counted(sweep.experiment.excluded, "cell"));
  if (sweep.plan.merged > 0) {
    text += fmt::format(", {} left out that would be another one again", Counted(sweep.plan.merged, "trial"));
  }
  return text;
}

}  // namespace emplace::experiments
