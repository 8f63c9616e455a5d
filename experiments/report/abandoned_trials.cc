#include "experiments/report/abandoned_trials.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "experiments/spec/experiment.h"
#include "experiments/spec/trial_plan.h"
#include "sim/base/check.h"
#include "sim/base/file_io.h"

namespace emplace::experiments {

void LeaveOutAbandoned(const std::string& file, std::vector<ExperimentRuns>* experiments) {
  std::istringstream text(ReadWholeFile(file));
  const ExperimentSpec experiment = ReadExperiment(text, file);
  const auto runs = std::find_if(experiments->begin(), experiments->end(),
                                 [&experiment](const ExperimentRuns& other) { return other.name == experiment.name; });
  if (runs == experiments->end()) {
    throw InputError(file, fmt::format("is the experiment {}, of which there are no runs", experiment.name));
  }
  std::set<std::string> ids;
  for (const PlannedTrial& trial : PlanTrials(experiment, /*set_up=*/false).trials) ids.insert(trial.id);
  const auto is_abandoned = [&ids](const auto& trial) { return ids.count(trial.id) == 0; };
  runs->abandoned += std::erase_if(runs->trials, is_abandoned);
  runs->abandoned += std::erase_if(runs->unfinished, is_abandoned);
  if (runs->trials.empty()) {
    throw InputError(file, fmt::format("has none of the finished trials of {}", experiment.name));
  }
}

}  // namespace emplace::experiments
