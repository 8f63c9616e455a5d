#ifndef EMPLACE_EXPERIMENTS_REPORT_TABLES_H_
#define EMPLACE_EXPERIMENTS_REPORT_TABLES_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "experiments/report/grid.h"
#include "experiments/report/metrics.h"
#include "experiments/report/policy_cost.h"
#include "experiments/report/published.h"
#include "experiments/report/statistics.h"
#include "experiments/run/run_reader.h"

namespace emplace::experiments {

// A cell of the grid, or an unweighted mean of several.
struct TableColumn {
  std::string title;
  // Columns of the grid: one list per dataset, each averaged first.
  std::vector<std::vector<std::size_t>> cells;
  // The axes over which the column averages, with their values ascending; empty for a cell.
  std::map<std::string, std::vector<std::string>> over;
};

// How much of a cell is there.
struct CellTrials {
  std::size_t found = 0;   // trials with a value
  std::size_t wanted = 0;  // the trials of the agent, and one for each graph of the column that only other agents have

  bool IsComplete() const { return found == wanted; }
};

struct TableCell {
  std::optional<Estimate> estimate;          // none: no trial, or an average with a cell that has none
  std::optional<PublishedFigure> published;  // matched by all its trials; of several the one with the most conditions
  CellTrials trials;                         // for an average, the sum over its cells

  // Whether the estimate is over the same problems as the other agents' in its column. Others are never ranked.
  bool IsRanked() const { return estimate && trials.IsComplete(); }
};

struct TableRow {
  std::string label;
  std::vector<TableCell> cells;
};

// One metric over the grid: cells, then the mean of each dataset, then the mean of all datasets.
struct MetricTable {
  const MetricEntry* metric = nullptr;
  std::vector<TableColumn> columns;
  // Best first by the last column; rows that lack a trial there come behind, and rows without a value last, by label.
  std::vector<TableRow> rows;
};

std::vector<TableColumn> MakeTableColumns(const ReportGrid& grid);

// `trials` has those that are missing too (WithMissingTrials). `published` may be null. Times in µs, like scores.
MetricTable MakeMetricTable(const std::vector<TrialRecord>& trials, const ReportGrid& grid, const MetricEntry& metric,
                            const PublishedFigures* published);

// The three definitions of P-C, for each label with improvement and policy time in every column of the grid.
struct PolicyCostRow {
  std::string label;
  PolicyCost cost;
};
std::vector<PolicyCostRow> MakePolicyCostRows(const std::vector<TrialRecord>& trials, const ReportGrid& grid);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_TABLES_H_
