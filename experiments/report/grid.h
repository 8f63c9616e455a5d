#ifndef EMPLACE_EXPERIMENTS_REPORT_GRID_H_
#define EMPLACE_EXPERIMENTS_REPORT_GRID_H_

#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "experiments/run/run_reader.h"

namespace emplace::experiments {

// Layout of an experiment's trials in tables: a row for each agent.label, a column for each combination of the other
// varying axes. Graphs of a dataset, and seeds, are repetitions within a cell. Trials that are not finished count too
// (WithMissingTrials).
struct ReportGrid {
  // Key paths of spec.json, or num_devices. First graph.dataset and num_devices, if they vary. Then the paths that
  // still vary for the same graph and, unless they define the problem (cluster, engine, costs, objective, schedule),
  // for the same agent. A path determined by earlier axes is not an axis.
  std::vector<std::string> axes;
  std::vector<std::string> labels;  // ascending
  // The text of each axis; numbers sorted numerically. Graphs of different content have different texts, even if they
  // have one name: their group, and what distinguishes them.
  std::vector<std::vector<std::string>> columns;
  std::vector<std::size_t> column_of;          // indexed by trial
  std::map<std::string, std::string> devices;  // DeviceTitles
};

// Requires: at least one trial.
ReportGrid MakeReportGrid(const std::vector<TrialRecord>& trials);

// The group of a graph: its dataset, or its model and options, or its file's name.
std::string GraphGroup(const TrialRecord& trial);
// Identifies the graph, or the graphs trained together, of a trial, by their content.
std::string GraphKey(const TrialRecord& trial);
// The value of an axis: GraphGroup for graph.dataset, the number of graphs for together and transfer.
std::string AxisText(const TrialRecord& trial, const std::string& axis);

// Columns that share a dataset, in order; one list if datasets are not an axis.
std::vector<std::vector<std::size_t>> ColumnsByDataset(const ReportGrid& grid);

// "cifar10, 3 GPUs"; "all" for a grid without axes.
std::string ColumnTitle(const ReportGrid& grid, const std::vector<std::string>& column);

// Whether a sorts before b: as numbers if both begin with one, else as text.
bool NaturallyLess(const std::string& a, const std::string& b);
std::vector<std::string> NaturallySorted(const std::set<std::string>& texts);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_GRID_H_
