#include "experiments/report/trial_filter.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <sstream>

#include "experiments/plan/experiment.h"
#include "experiments/plan/trial_plan.h"
#include "experiments/report/grid.h"
#include "experiments/report/published.h"
#include "sim/base/check.h"
#include "sim/base/file_io.h"

namespace emplace::experiments {
namespace {

constexpr std::size_t kMostValuesNamed = 12;

std::string ConditionText(const TrialCondition& condition) {
  return fmt::format("{} {}", condition.key, fmt::join(condition.values, " or "));
}

bool Meets(const TrialCondition& condition, const std::string& value) {
  return std::find(condition.values.begin(), condition.values.end(), value) != condition.values.end();
}

bool MeetsAll(const std::vector<TrialCondition>& conditions, const TrialRecord& trial) {
  return std::all_of(conditions.begin(), conditions.end(), [&trial](const TrialCondition& condition) {
    return Meets(condition, MatchText(trial, condition.key));
  });
}

// "cifar10, nmt, ptb"; empty if no trial has the key.
std::string ValuesOf(const std::string& key, const std::vector<ExperimentRuns>& experiments) {
  std::set<std::string> values;
  for (const ExperimentRuns& runs : experiments) {
    for (const TrialRecord& trial : runs.trials) values.insert(MatchText(trial, key));
  }
  values.erase("");
  if (values.empty()) return "";
  std::vector<std::string> sorted = NaturallySorted(values);
  const bool more = sorted.size() > kMostValuesNamed;
  sorted.resize(std::min(sorted.size(), kMostValuesNamed));
  return fmt::format("{}{}", fmt::join(sorted, ", "), more ? ", …" : "");
}

}  // namespace

std::vector<TrialCondition> ParseConditions(const std::vector<std::string>& texts, const std::string& option) {
  std::vector<TrialCondition> conditions;
  for (const std::string& text : texts) {
    const std::size_t equals = text.find('=');
    if (equals == 0 || equals == std::string::npos || equals + 1 == text.size()) {
      throw InputError(fmt::format("{} {}", option, text), "is not KEY=VALUE (such as budget.evaluations=1000)");
    }
    const std::string key = text.substr(0, equals);
    auto condition =
        std::find_if(conditions.begin(), conditions.end(), [&key](const auto& other) { return other.key == key; });
    if (condition == conditions.end()) condition = conditions.insert(condition, {key, {}});
    condition->values.push_back(text.substr(equals + 1));
  }
  return conditions;
}

void KeepTrials(const std::vector<TrialCondition>& conditions, const std::string& option,
                std::vector<ExperimentRuns>* experiments) {
  if (conditions.empty()) return;
  const auto any = [&](const auto& predicate) {
    return std::any_of(experiments->begin(), experiments->end(), [&](const ExperimentRuns& runs) {
      return std::any_of(runs.trials.begin(), runs.trials.end(), predicate);
    });
  };
  for (const TrialCondition& condition : conditions) {
    for (const std::string& value : condition.values) {
      if (any([&](const TrialRecord& trial) { return MatchText(trial, condition.key) == value; })) continue;
      const std::string values = ValuesOf(condition.key, *experiments);
      throw InputError(fmt::format("{} {}={}", option, condition.key, value),
                       values.empty() ? fmt::format("no finished trial has the key {} (a key path of spec.json, or "
                                                    "num_devices)",
                                                    condition.key)
                                      : fmt::format("no finished trial has this value ({})", values));
    }
  }
  std::vector<std::string> kept(conditions.size());
  std::transform(conditions.begin(), conditions.end(), kept.begin(), ConditionText);
  if (!any([&](const TrialRecord& trial) { return MeetsAll(conditions, trial); })) {
    throw InputError(option, fmt::format("no finished trial has {}", fmt::join(kept, ", ")));
  }
  for (ExperimentRuns& runs : *experiments) {
    std::erase_if(runs.trials, [&](const TrialRecord& trial) { return !MeetsAll(conditions, trial); });
    std::erase_if(runs.unfinished, [&](const UnfinishedTrial& trial) {
      // Treated as a trial of which only the spec is known.
      TrialRecord record;
      record.spec = trial.spec;
      return std::any_of(conditions.begin(), conditions.end(), [&record](const TrialCondition& condition) {
        return condition.key != "num_devices" && !Meets(condition, MatchText(record, condition.key));
      });
    });
    runs.kept = kept;
  }
  std::erase_if(*experiments, [](const ExperimentRuns& runs) { return runs.trials.empty(); });
}

void LeaveOutAbandoned(const std::string& file, std::vector<ExperimentRuns>* experiments) {
  std::istringstream text(ReadWholeFile(file, InputKind::kExperiment));
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
