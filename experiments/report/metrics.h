#ifndef EMPLACE_EXPERIMENTS_REPORT_METRICS_H_
#define EMPLACE_EXPERIMENTS_REPORT_METRICS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/report/published.h"
#include "experiments/report/statistics.h"
#include "experiments/run/run_reader.h"

namespace emplace::experiments {

// The score of a trial on one graph.
struct GraphScore {
  std::string graph;
  Observed score;
};

// Which of a graph's scores over seeds are used in a table: all, or one.
enum class OfSeeds : std::uint8_t { kAll, kBest, kMedian, kWorst };

// A quantity for which a report has a table.
struct MetricEntry {
  std::string_view name;  // name in an experiment's `metrics`
  std::string_view title;
  std::string_view unit;   // shown; "" for a plain number
  double shown_per_unit;   // factor from a score to the shown unit
  bool smaller_is_better;  // determines the order of rows and the best value
  // One score for each graph that has one; scores of the whole trial are under its first graph's name. Null for rank,
  // which is computed over several trials: RankScores.
  std::vector<GraphScore> (*scores)(const TrialRecord& trial);
  OfSeeds of_seeds = OfSeeds::kAll;
};

// Metrics:
//   step_time: µs; _best, _median and _worst over seeds, as the Hierarchical Planner's table 2
//   hardware_step_time: µs, of the best placement, measured on hardware
//   improvement: %, trial_record.h; single_device_improvement is its name in earlier versions
//   thesis_improvement: %, over the first placement of the search; Mitropolitsky 2020, tables 4.3 to 4.6
//   transfer_improvement, transfer_final: %, the best and the last placement of a policy on a graph not trained on
//   final_improvement: %, of the policy itself by argmax, if the last episode is an argmax episode
//   policy_seconds: per episode
//   evaluations
//   ops: of the graph, before grouping
//   entropy: mean over training episodes of H / log D; initial_entropy: of the first episode
//   lower_bound_ratio: best / lower bound; _100 and _1000: after that many evaluations
//   curve_area: mean of best so far / lower bound over the budget
//   rank
//   search_seconds: until within 5 % of the final best
//   simulator_seconds, wall_seconds
//   pc_ratio: P-C, thesis_improvement per second of policy computation. A cell is mean improvement / mean seconds, 0 if
//     there is no improvement; averages are means of cells. Source: Mitropolitsky 2020, 4.2.1 and table 4.11.
std::span<const MetricEntry> AllMetrics();
// Throws InputError(place) that lists the known names.
const MetricEntry& FindMetric(std::string_view name, const std::string& place);

// The experiment's own metrics, or step_time, improvement and policy_seconds. If the table of published figures (may be
// null) has the thesis's improvement, thesis_improvement is added after improvement.
std::vector<std::string> MetricsToReport(const ExperimentRuns& runs, const PublishedFigures* published);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_METRICS_H_
