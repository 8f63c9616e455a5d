#ifndef EMPLACE_EXPERIMENTS_RUN_TRIAL_H_
#define EMPLACE_EXPERIMENTS_RUN_TRIAL_H_

#include <functional>

#include "agents/search.h"

namespace emplace {

// A trial of an experiment is one search.
using TrialProblem = SearchProblem;
using TrialSpec = SearchSpec;
using TrialProgress = SearchProgress;
using TrialResult = SearchResult;
inline TrialResult RunTrial(const TrialSpec& spec, const std::function<void(const TrialProgress&)>& on_progress = {}) {
  return RunSearch(spec, on_progress);
}

}  // namespace emplace

#endif  // EMPLACE_EXPERIMENTS_RUN_TRIAL_H_
