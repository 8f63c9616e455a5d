#ifndef EMPLACE_EXPERIMENTS_RUN_SWEEP_ESTIMATE_H_
#define EMPLACE_EXPERIMENTS_RUN_SWEEP_ESTIMATE_H_

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agents/search.h"
#include "experiments/plan/experiment.h"
#include "experiments/plan/trial_choice.h"
#include "experiments/plan/trial_plan.h"

namespace emplace::experiments {

// The estimated time of a trial, extrapolated from a few of its evaluations.
struct TrialEstimate {
  std::size_t evaluations = 0;  // total over the graphs of its training and its transfers
  double low_seconds = 0;
  double high_seconds = 0;
  bool is_bounded = true;  // false: the agent takes too long to be measured, so `high_seconds` is not its time
};

// Measures once each: evaluations of every problem, and a short search by every agent with the same options, or the
// only proposal of an agent that has one. The graphs of the searches differ in size by about a factor of two. Writes no
// files.
class SweepEstimator {
 public:
  explicit SweepEstimator(const ExperimentSpec& experiment) : experiment_(experiment) {}

  TrialEstimate Estimate(const PlannedTrial& trial);

 private:
  struct ProblemCost {
    std::size_t num_groups = 0;
    double setup_seconds = 0;
    double seconds_per_evaluation = 0;
  };
  const ProblemCost& CostOf(const GraphSource& graph, const TrialChoice& spec, const ExperimentCell& cell);
  struct PolicyCost {
    double once = 0;            // time of a search before its second batch, such as loading a library
    double per_evaluation = 0;  // time per evaluation, including the simulation; for another graph an upper limit
    double least_per_evaluation = 0;
    double simulated = 0;  // seconds_per_evaluation of the graph that was measured
    bool had_one_batch =
        false;  // whether the two cannot be distinguished, so that `per_evaluation` may include the constant part
    std::optional<std::size_t> evaluations = {};  // evaluations of a search that ended before its budget
  };
  // The cost of a search; none if the agent has one answer that takes long. `measure`: this is the trial's first graph.
  // It is measured unless a graph of half to twice as many groups already was.
  std::optional<PolicyCost> PolicyCostOf(const TrialChoice& spec, const ExperimentCell& cell,
                                         const ProblemCost& problem, bool measure);
  PolicyCost MeasurePolicy(const TrialChoice& spec, const ExperimentCell& cell);
  // `budget`: evaluations of `trial`.
  static PolicyCost MeasuredCost(agents::SearchSpec trial, std::size_t budget);

  const ExperimentSpec& experiment_;
  std::map<std::string, ProblemCost> problems_;
  // For each agent with its options, by number of groups.
  std::map<std::string, std::map<std::size_t, PolicyCost>> policies_;
};

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_RUN_SWEEP_ESTIMATE_H_
