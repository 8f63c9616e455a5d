#ifndef EMPLACE_EXPERIMENTS_REPORT_PAIRED_TESTS_H_
#define EMPLACE_EXPERIMENTS_REPORT_PAIRED_TESTS_H_

#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "experiments/report/grid.h"
#include "experiments/report/metrics.h"
#include "experiments/report/statistics.h"
#include "experiments/run/run_reader.h"

namespace emplace::experiments {

inline constexpr double kSignificant = 0.05;  // differences with a p-value below are significant

// Compares two agents on the problems that both tried. A pair is the same graph in the same column of the grid (for
// example the same cluster) with the same seed.
struct PairedTest {
  std::string better;  // the agent with the larger mean; on ties the first by label
  std::string worse;
  std::size_t pairs = 0;
  std::size_t graphs = 0;
  Estimate difference;         // better minus worse: mean over pairs; resamples graphs, then their pairs
  WilcoxonResult over_pairs;   // pairs of one graph are dependent: interpret it together with over_graphs
  WilcoxonResult over_graphs;  // test over the mean difference of each graph
  // The test over each problem's mean difference: a problem is a graph in a column of the grid, so networks of one name
  // with different settings are different problems.
  std::size_t problems = 0;
  WilcoxonResult over_problems;
  double adjusted_pairs = 1;  // p-values after Holm's correction over all tests of the list
  double adjusted_graphs = 1;
};

// The compared quantity.
enum class PairedQuantity {
  kImprovement,          // percentage points
  kTransferImprovement,  // the same on graphs not trained on
  kLogStepTime,          // -100 ln(step time): differences are about percent; positive is faster
};
// kImprovement if every trial of the experiment that found something has one, else kLogStepTime.
PairedQuantity QuantityToPair(const std::vector<TrialRecord>& trials);
// The metric from which the quantity is computed; its scores are step times for kLogStepTime.
const MetricEntry& MetricOf(PairedQuantity quantity);

// Columns of the grid, each with a graph.
using ProblemSet = std::set<std::pair<std::size_t, std::string>>;
using ProblemsByLabel = std::map<std::string, ProblemSet>;

// All pairs of agents with at least one common pair, the smallest p-value over pairs first. `columns`: the columns of
// the grid to include.
std::vector<PairedTest> MakePairedTests(const std::vector<TrialRecord>& trials, const ReportGrid& grid,
                                        const std::vector<std::size_t>& columns, PairedQuantity quantity);

// Tests one agent against each other agent of `problems`, the problems of each agent to include. Holm's correction is
// over these tests only. If the agent has the best mean, it was selected on the same data. The two-sided test against
// the runner-up is still valid, even without correction.
// Source, for exponential families: Hung and Fithian 2019, "Rank verification for exponential families", Annals of
// Statistics 47.
std::vector<PairedTest> MakeTestsAgainst(const std::string& label, const std::vector<TrialRecord>& trials,
                                         const ReportGrid& grid, const ProblemsByLabel& problems,
                                         PairedQuantity quantity);

// For each trial and each of its graphs, its rank among the agents with the same graph, column of the grid and seed.
// Rank 1 is the shortest step time; ties share the mean of their ranks; agents that found nothing that fits are last.
// Problems tried by only one agent are left out, and so are those that a trial is missing of.
std::vector<std::vector<GraphScore>> RankScores(const std::vector<TrialRecord>& trials, const ReportGrid& grid);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_PAIRED_TESTS_H_
