#ifndef EMPLACE_EXPERIMENTS_REPORT_REPORT_GRID_H_
#define EMPLACE_EXPERIMENTS_REPORT_REPORT_GRID_H_

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "experiments/run/run_reader.h"

namespace emplace::experiments {

// How an experiment's trials are laid out in tables: a row for each agent.label, a column for each combination of the
// other axes that vary. Graphs of a dataset, and seeds, are repetitions inside a cell.
struct ReportGrid {
  // Key paths of spec.json, or num_devices. First graph.dataset and num_devices, if they vary; then what varies beside
  // them for the same agent and graph. What follows from agent.label or from the columns before is no axis.
  std::vector<std::string> axes;
  std::vector<std::string> labels;                // ascending
  std::vector<std::vector<std::string>> columns;  // the text of each axis; numbers ascend as numbers
  std::vector<std::size_t> column_of;             // by trial
  std::map<std::string, std::string> devices;     // DeviceTitles
};

// Requires: at least one trial.
ReportGrid MakeReportGrid(const std::vector<TrialRecord>& trials);

// What a graph stands under: its dataset, or its model and options, or its file's name.
std::string GraphGroup(const TrialRecord& trial);
// The value of an axis: GraphGroup for graph.dataset, the number of graphs for together and transfer.
std::string AxisText(const TrialRecord& trial, const std::string& axis);

// Columns that share a dataset, in their order; all together where datasets are no axis.
std::vector<std::vector<std::size_t>> ColumnsByDataset(const ReportGrid& grid);

// "cifar10, 3 GPUs"; "all" for a grid without axes.
std::string ColumnTitle(const ReportGrid& grid, const std::vector<std::string>& column);

// Whether a stands before b: as numbers where both begin with one, else as text.
bool NaturallyLess(const std::string& a, const std::string& b);
std::vector<std::string> NaturallySorted(const std::set<std::string>& texts);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_REPORT_GRID_H_
