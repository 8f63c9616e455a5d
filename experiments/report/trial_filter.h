#ifndef EMPLACE_EXPERIMENTS_REPORT_TRIAL_FILTER_H_
#define EMPLACE_EXPERIMENTS_REPORT_TRIAL_FILTER_H_

#include <string>
#include <vector>

#include "experiments/run/run_reader.h"

namespace emplace::experiments {

// A condition on the trials of a report.
struct TrialCondition {
  std::string key;                  // key for MatchText (published.h)
  std::vector<std::string> values;  // allowed values
};

// Parses KEY=VALUE texts; several texts with one key allow any of their values. On a text of another form, throws
// InputError whose place is `option` and the text.
std::vector<TrialCondition> ParseConditions(const std::vector<std::string>& texts, const std::string& option);

// Removes the trials that do not meet all conditions, finished or not (num_devices is known only of finished ones), and
// experiments without remaining trials. The conditions are recorded in `kept` of the remaining experiments. Throws
// InputError if no finished trial meets one condition, or all. Its place is `option` and the condition; it lists the
// existing values.
void KeepTrials(const std::vector<TrialCondition>& conditions, const std::string& option,
                std::vector<ExperimentRuns>* experiments);

// A run folder keeps the trials of earlier versions of an experiment file. Trials that the file no longer has, finished
// or not, are abandoned. Removes the abandoned trials of the experiment that `file` describes, and counts them in
// `abandoned`. Plans the experiment as a sweep does. Throws InputError like ReadExperiment and PlanTrials. Its place is
// `file` if no experiment of that name ran, or none of its finished trials remains.
void LeaveOutAbandoned(const std::string& file, std::vector<ExperimentRuns>* experiments);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_TRIAL_FILTER_H_
