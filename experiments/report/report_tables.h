#ifndef EMPLACE_EXPERIMENTS_REPORT_REPORT_TABLES_H_
#define EMPLACE_EXPERIMENTS_REPORT_REPORT_TABLES_H_

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "experiments/report/policy_cost.h"
#include "experiments/report/published.h"
#include "experiments/report/report_grid.h"
#include "experiments/report/report_metrics.h"
#include "experiments/report/statistics.h"
#include "experiments/run/run_reader.h"

namespace emplace::experiments {

// A cell of the grid, or a plain mean of several.
struct TableColumn {
  std::string title;
  // Columns of the grid; outer: datasets, inner: what is averaged within one.
  std::vector<std::vector<std::size_t>> cells;
  // The axes that the column averages over, with their values ascending; empty for a cell.
  std::map<std::string, std::vector<std::string>> over;
};

struct TableCell {
  std::optional<Estimate> estimate;          // none: no trial, or an average with a cell that has none
  std::optional<PublishedFigure> published;  // that all its trials match; of several the one that asks for most
};

struct TableRow {
  std::string label;
  std::vector<TableCell> cells;
};

// One metric over the grid: cells, then the mean of each dataset, then that of all datasets.
struct MetricTable {
  const MetricEntry* metric = nullptr;
  std::vector<TableColumn> columns;
  std::vector<TableRow> rows;  // best first by the last column; those without a value there last, by label
};

std::vector<TableColumn> MakeTableColumns(const ReportGrid& grid);

// `published` may be null. In µs, as scores are.
MetricTable MakeMetricTable(const std::vector<TrialRecord>& trials, const ReportGrid& grid, const MetricEntry& metric,
                            const PublishedFigures* published);

// The three ways to say P-C, for each label that has improvement and policy time in every column of the grid.
struct PolicyCostRow {
  std::string label;
  PolicyCost cost;
};
std::vector<PolicyCostRow> MakePolicyCostRows(const std::vector<TrialRecord>& trials, const ReportGrid& grid);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_REPORT_TABLES_H_
