#ifndef EMPLACE_EXPERIMENTS_REPORT_PUBLISHED_ROWS_H_
#define EMPLACE_EXPERIMENTS_REPORT_PUBLISHED_ROWS_H_

#include <map>
#include <string>
#include <vector>

#include "experiments/report/published.h"
#include "sim/base/json_value.h"

namespace emplace::experiments {

// Figures that differ in the agent and in the metric only, such as the methods that a paper compares on one network.
struct PublishedRow {
  std::string name = {};                                      // name for the command line: "inception-v3-4-gpus"
  std::string title = {};                                     // "Inception-V3, 4 GPUs"
  std::vector<std::string> tables = {};                       // tables of the paper: "table 1"
  std::map<std::string, std::string> match = {};              // the conditions without those on the agent
  std::map<std::string, std::vector<std::string>> over = {};  // PublishedFigure::over
  std::vector<PublishedFigure> figures = {};
};

// The table that a figure is from: the first part of its place.
std::string TableOf(const PublishedFigure& figure);

// The rows of a table in the order of their first figures. A row is called by what the places of all its figures share
// between commas, after the table: "table 1, RNNLM, 2 GPUs, Expert" and "table 1, RNNLM, 2 GPUs, Post" are of the row
// "RNNLM, 2 GPUs". Where that is nothing, or the name of another row, its conditions name it.
std::vector<PublishedRow> RowsOf(const PublishedFigures& published);

// The row with this name or title. Throws InputError that lists the names; its place is `place`.
const PublishedRow& FindRow(const std::vector<PublishedRow>& rows, const std::string& name, const std::string& place);

// Whether a trial with this spec (of spec.json) belongs to the row.
bool IsInRow(const PublishedRow& row, const JsonValue& spec);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_PUBLISHED_ROWS_H_
