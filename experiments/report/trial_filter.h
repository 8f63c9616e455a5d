#ifndef EMPLACE_EXPERIMENTS_REPORT_TRIAL_FILTER_H_
#define EMPLACE_EXPERIMENTS_REPORT_TRIAL_FILTER_H_

#include <string>
#include <vector>

#include "experiments/run/run_reader.h"

namespace emplace::experiments {

// What a trial must be to stand in a report.
struct TrialCondition {
  std::string key;                  // as MatchText takes it (published.h)
  std::vector<std::string> values;  // one of them
};

// From KEY=VALUE texts; one key in several of them means any of their values. Throws InputError at a text of another
// form, its place `option` and the text.
std::vector<TrialCondition> ParseConditions(const std::vector<std::string>& texts, const std::string& option);

// Drops the trials that do not meet all conditions, finished or not (but num_devices is known of finished ones only),
// and experiments of which no trial is left; what is left says the conditions in `kept`. Throws InputError, its place
// `option` and the condition, if no finished trial meets one of them, or all; it names the values that there are.
void KeepTrials(const std::vector<TrialCondition>& conditions, const std::string& option,
                std::vector<ExperimentRuns>* experiments);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_TRIAL_FILTER_H_
