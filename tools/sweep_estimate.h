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

// What a trial will take, guessed from a few of its evaluations.
struct TrialEstimate {
  std::size_t evaluations = 0;           // its budget, on all graphs that it trains on, and those of its transfers
  double simulator_seconds = 0;          // setting up included
  std::optional<double> policy_seconds;  // none: the agent takes too long to be tried
};

// Measures, once for each: evaluations of every problem, and a short search by every agent with the same options on
// graphs of about every size, doubling. Writes nothing.
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
  // Seconds in the agent for an evaluation of so many groups; none if it has one answer. `measure`: on the trial's
  // first graph, which has so many, unless one of half to twice the size was measured.
  std::optional<double> PolicySeconds(const experiments::TrialChoice& spec, const experiments::ExperimentCell& cell,
                                      std::size_t groups, bool measure);
  double MeasurePolicy(const experiments::TrialChoice& spec, const experiments::ExperimentCell& cell);

  const experiments::ExperimentSpec& experiment_;
  std::map<std::string, ProblemCost> problems_;
  // By agent with its options: seconds of an evaluation by number of groups.
  std::map<std::string, std::map<std::size_t, double>> policies_;
};

}  // namespace emplace::tools

#endif  // EMPLACE_TOOLS_SWEEP_ESTIMATE_H_
