#ifndef EMPLACE_EXPERIMENTS_PLAN_TRIAL_PLAN_H_
#define EMPLACE_EXPERIMENTS_PLAN_TRIAL_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/plan/experiment.h"
#include "experiments/plan/trial_choice.h"
#include "sim/base/json_value.h"

namespace emplace::experiments {

// One trial: a cell with one graph (or all of them together) and one seed.
struct PlannedTrial {
  std::string id = {};      // 16 hex digits of its spec
  TrialChoice choice = {};  // all settings resolved
  JsonValue spec = {};      // the same, in the form of spec.json
  std::size_t cell = 0;     // index into ExperimentSpec::cells
  std::string graph = {};   // its name, or "N graphs"
  std::uint64_t seed = 0;
  double work = 0;  // about evaluations * ops: an estimate of its time
};

struct TrialPlan {
  std::vector<PlannedTrial> trials;  // ordered by cell, graph, seed
  // Trials that are equal after resolution (for example numbers of groups with a grouper that has none) are run once,
  // as they would have the same result.
  std::size_t merged = 0;
};

// Plans all trials of an experiment. Opens the files that it names and generates the families that it samples. With
// `set_up`, the first problem of every kind (graphs, cluster, costs, engine, grouping) is set up completely; agents
// that have one answer, that must learn or that are classes in Python propose once for it. Every graph's number of
// groups is compared with the budget of each agent. Errors are thereby reported before the first trial. Throws
// InputError like ReadExperiment.
TrialPlan PlanTrials(const ExperimentSpec& experiment, bool set_up = true);

// The members of a family that a choice selects, ascending. Requires: the sample is not larger than the family.
std::vector<std::size_t> ChosenMembers(const GraphChoice& choice);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_PLAN_TRIAL_PLAN_H_
