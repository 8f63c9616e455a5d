#ifndef EMPLACE_TOOLS_SWEEP_ESTIMATE_H_
#define EMPLACE_TOOLS_SWEEP_ESTIMATE_H_

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/spec/experiment.h"
#include "experiments/spec/trial_choice.h"
#include "experiments/spec/trial_plan.h"

namespace emplace::tools {

// The estimated time of a trial, extrapolated from a few of its evaluations.
struct TrialEstimate {
  std::size_t evaluations = 0;           // on all graphs of its training and its transfers
  double simulator_seconds = 0;          // includes the setup
  std::optional<double> policy_seconds;  // none: the agent takes too long to be measured
};

// Measures once each: evaluations of every problem, and a short search by every agent with the same options. The graphs
// of the searches differ in size by about a factor of two. Writes no files.
class SweepEstimator {
 public:
  explicit SweepEstimator(const experiments::ExperimentSpec& experiment) : experiment_(experiment) {}

  TrialEstimate Estimate(const experiments::PlannedTrial& trial);

 private:
  struct ProblemCost {
    std::size_t num_groups = 0;
    double setup_seconds = 0;
    double seconds_per_evaluation = 0;
  };
  const ProblemCost& CostOf(const experiments::GraphSource& graph, const experiments::TrialChoice& spec,
                            const experiments::ExperimentCell& cell);
  // Policy seconds per evaluation of `groups` groups; none if the agent has one answer. `measure`: the trial's first
  // graph has `groups` groups. It is measured unless a graph of half to twice its size already was.
  std::optional<double> PolicySeconds(const experiments::TrialChoice& spec, const experiments::ExperimentCell& cell,
                                      std::size_t groups, bool measure);
  double MeasurePolicy(const experiments::TrialChoice& spec, const experiments::ExperimentCell& cell);

  const experiments::ExperimentSpec& experiment_;
  std::map<std::string, ProblemCost> problems_;
  // For each agent with its options: seconds per evaluation by number of groups.
  std::map<std::string, std::map<std::size_t, double>> policies_;
};

}  // namespace emplace::tools

#endif  // EMPLACE_TOOLS_SWEEP_ESTIMATE_H_
