#include "experiments/report/policy_cost.h"

#include <numeric>

#include "sim/base/check.h"

namespace emplace::experiments {
namespace {

double Mean(const std::vector<double>& values) {
  EMPLACE_CHECK(!values.empty());
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

double Ratio(double improvement, double seconds) { return improvement > 0 && seconds > 0 ? improvement / seconds : 0; }

}  // namespace

PolicyCost SummarisePolicyCost(const std::vector<std::vector<double>>& improvement,
                               const std::vector<std::vector<double>>& seconds) {
  EMPLACE_CHECK_EQ(improvement.size(), seconds.size());
  std::vector<double> cell_ratios;  // indexed by dataset, the mean over its cells
  std::vector<double> dataset_ratios;
  std::vector<double> improvements;
  std::vector<double> times;
  for (std::size_t d = 0; d < improvement.size(); ++d) {
    EMPLACE_CHECK_EQ(improvement[d].size(), seconds[d].size());
    std::vector<double> ratios;
    for (std::size_t c = 0; c < improvement[d].size(); ++c) ratios.push_back(Ratio(improvement[d][c], seconds[d][c]));
    cell_ratios.push_back(Mean(ratios));
    improvements.push_back(Mean(improvement[d]));
    times.push_back(Mean(seconds[d]));
    dataset_ratios.push_back(Ratio(improvements.back(), times.back()));
  }
  return {.mean_of_cells = Mean(cell_ratios),
          .mean_of_dataset_ratios = Mean(dataset_ratios),
          .ratio_of_means = Ratio(Mean(improvements), Mean(times))};
}

}  // namespace emplace::experiments
