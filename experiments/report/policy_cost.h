#ifndef EMPLACE_EXPERIMENTS_REPORT_POLICY_COST_H_
#define EMPLACE_EXPERIMENTS_REPORT_POLICY_COST_H_

#include <vector>

namespace emplace::experiments {

// Three definitions of an agent's gain per second of policy computation, in percent per second. They differ by more
// than a factor of 2 if some datasets take much less time than others.
struct PolicyCost {
  double mean_of_cells = 0;           // mean of the cells' ratios, as in table 4.11 of Mitropolitsky 2020
  double mean_of_dataset_ratios = 0;  // mean over datasets of mean improvement / mean seconds
  double ratio_of_means = 0;          // mean improvement / mean seconds, both means over datasets of means over cells
};

// improvement (%) and seconds: [dataset][cell]; a cell is a number of devices. A ratio without improvement, or with
// time 0, is 0 (Mitropolitsky 2020, 4.2.1). Requires: the same shape, nothing empty.
PolicyCost SummarisePolicyCost(const std::vector<std::vector<double>>& improvement,
                               const std::vector<std::vector<double>>& seconds);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_POLICY_COST_H_
