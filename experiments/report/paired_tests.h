#ifndef EMPLACE_EXPERIMENTS_REPORT_PAIRED_TESTS_H_
#define EMPLACE_EXPERIMENTS_REPORT_PAIRED_TESTS_H_

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "experiments/report/report_grid.h"
#include "experiments/report/report_metrics.h"
#include "experiments/report/statistics.h"
#include "experiments/run/run_reader.h"

namespace emplace::experiments {

inline constexpr double kSignificant = 0.05;  // differences with a p-value below are called sure

// Two agents over what both have tried: a pair is the same graph in the same column of the grid (the same cluster, for
// one) with the same seed.
struct PairedTest {
  std::string better;  // the agent with the larger mean; of equal ones the first by label
  std::string worse;
  std::size_t pairs = 0;
  std::size_t graphs = 0;
  Estimate difference;         // better minus worse: mean over pairs, graphs and then their pairs resampled
  WilcoxonResult over_pairs;   // pairs of one graph are not independent: read it with the next one
  WilcoxonResult over_graphs;  // of each graph's mean difference
  double adjusted_pairs = 1;   // p-values after Holm's correction over all tests of the list
  double adjusted_graphs = 1;
};

// What is compared.
enum class PairedQuantity {
  kImprovement,          // percentage points
  kTransferImprovement,  // the same on graphs that were not trained on
  kLogStepTime,          // -100 ln(step time): differences are about percent, positive is faster
};
// kImprovement where every trial of the experiment that found something has one, else kLogStepTime.
PairedQuantity QuantityToPair(const std::vector<TrialRecord>& trials);
// The metric of which the quantity is made; its scores are step times for kLogStepTime.
const MetricEntry& MetricOf(PairedQuantity quantity);

// Columns of the grid, each with a graph.
using ProblemSet = std::set<std::pair<std::size_t, std::string>>;
using ProblemsByLabel = std::map<std::string, ProblemSet>;

// Every two agents with at least one pair, the smallest p-value over pairs first. `columns`: those of the grid that
// count.
std::vector<PairedTest> MakePairedTests(const std::vector<TrialRecord>& trials, const ReportGrid& grid,
                                        const std::vector<std::size_t>& columns, PairedQuantity quantity);

// One agent against each other one of `problems`, which says what problems of each agent count. Holm's correction is
// over these tests alone. Where the agent is the one with the best mean, it was chosen by the same data: that the test
// against the runner-up is valid nevertheless, two-sided and even without correction, Hung and Fithian 2019 show for
// exponential families ("Rank verification for exponential families", Annals of Statistics 47).
std::vector<PairedTest> MakeTestsAgainst(const std::string& label, const std::vector<TrialRecord>& trials,
                                         const ReportGrid& grid, const ProblemsByLabel& problems,
                                         PairedQuantity quantity);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_PAIRED_TESTS_H_
