#ifndef EMPLACE_EXPERIMENTS_SPEC_TRIAL_PLAN_H_
#define EMPLACE_EXPERIMENTS_SPEC_TRIAL_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/spec/experiment.h"
#include "experiments/spec/trial_choice.h"
#include "sim/base/json_value.h"

namespace emplace::experiments {

// One trial: a cell with one graph (or all of them together) and one seed.
struct PlannedTrial {
  std::string id = {};      // 16 hex digits of its spec
  TrialChoice choice = {};  // everything resolved
  JsonValue spec = {};      // the same, as spec.json has it
  std::size_t cell = 0;     // of ExperimentSpec::cells
  std::string graph = {};   // its name, or "N graphs"
  std::uint64_t seed = 0;
  double work = 0;  // evaluations * ops, roughly: what its time grows with
};

struct TrialPlan {
  std::vector<PlannedTrial> trials;  // by cell, graph, seed
  // Trials that are another one once everything is resolved (say, numbers of groups with a grouper that has none) are
  // run once: they would have the same result.
  std::size_t merged = 0;
};

// Every trial of an experiment. Opens the files that it names and makes the families that it samples from. With
// `set_up`, the first problem of every kind (graphs, cluster, costs, engine, grouping) is set up whole and agents that
// are to learn are begun, so that what cannot work is said before the first trial. Throws InputError like
// ReadExperiment.
TrialPlan PlanTrials(const ExperimentSpec& experiment, bool set_up = true);

// Which members of a family a choice means, ascending. Requires: it samples no more than there are.
std::vector<std::size_t> ChosenMembers(const GraphChoice& choice);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_SPEC_TRIAL_PLAN_H_
