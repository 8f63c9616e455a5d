#ifndef EMPLACE_EXPERIMENTS_REPORT_REPORT_METRICS_H_
#define EMPLACE_EXPERIMENTS_REPORT_REPORT_METRICS_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/report/published.h"
#include "experiments/report/statistics.h"
#include "experiments/run/run_reader.h"

namespace emplace::experiments {

// What a trial scores on one graph.
struct GraphScore {
  std::string graph;
  Observed score;
};

// What of a graph's scores over seeds goes into a table: all of them, or one.
enum class OfSeeds : std::uint8_t { kAll, kBest, kMedian, kWorst };

// A quantity that a report has a table of.
struct MetricEntry {
  std::string_view name;  // in an experiment's `metrics`
  std::string_view title;
  std::string_view unit;   // shown; "" for a plain number
  double shown_per_unit;   // a score times this is in the unit shown
  bool smaller_is_better;  // decides the order of rows and what is called best
  // One score for each graph where the trial has one; scores of the whole trial stand under its first graph's name.
  // Null for rank, which is among trials: RankScores.
  std::vector<GraphScore> (*scores)(const TrialRecord& trial);
  OfSeeds of_seeds = OfSeeds::kAll;
};

// step_time (µs; _best, _median and _worst: over seeds, as the Hierarchical Planner's table 2), hardware_step_time (µs:
// of the best placement, run for real), improvement (%, report_improvement.h; single_device_improvement is its name in
// experiments of earlier versions), thesis_improvement (%: over the first placement of the search; Mitropolitsky 2020,
// tables 4.3 to 4.6), transfer_improvement and transfer_final (%: the best placement and the last one that a policy
// makes on a graph that it was not trained on), final_improvement (%: what the policy itself ends with, by argmax,
// where the last episode shows it), policy_seconds (per episode), pc_ratio, evaluations, entropy (mean over training
// episodes of H / log D), initial_entropy (of the first episode), lower_bound_ratio (best / lower bound; _100 and
// _1000: after so many evaluations), curve_area (mean of the best so far / lower bound over the budget), rank,
// search_seconds (until within 5 % of what is found at last), simulator_seconds, wall_seconds.
//
// pc_ratio is P-C, thesis_improvement per second of policy computation: a cell is mean improvement / mean seconds, 0 if
// there is no improvement; averages are means of cells. Source: Mitropolitsky 2020, 4.2.1 and table 4.11.
std::span<const MetricEntry> AllMetrics();
// Throws InputError(place) that lists the known names.
const MetricEntry& FindMetric(std::string_view name, const std::string& place);

// The experiment's own, or step_time, improvement and policy_seconds. A table of published figures (may be null) that
// has the thesis's improvement gets a column of its own for it, next to improvement.
std::vector<std::string> MetricsToReport(const ExperimentRuns& runs, const PublishedFigures* published);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_REPORT_METRICS_H_
