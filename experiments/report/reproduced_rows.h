#ifndef EMPLACE_EXPERIMENTS_REPORT_REPRODUCED_ROWS_H_
#define EMPLACE_EXPERIMENTS_REPORT_REPRODUCED_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace emplace::experiments {

// `emplace reproduce post`: runs trials of an experiment that names a table of published figures, and prints them
// beside the figures.
struct RowsOptions {
  std::string experiment = {};            // a shipped one
  std::string file = {};                  // instead of it; "": none
  std::string row = {};                   // name or title; "": all rows
  bool list = false;                      // the rows with an estimate of time; nothing runs
  std::vector<std::uint64_t> seeds = {};  // seeds of the experiment to run; empty: all
  std::size_t jobs = 0;                   // 0: one for each core
  std::vector<std::string> outputs = {};  // .md and .csv: tables; at most one other: the folder of runs
};

// Returns an exit status.
int ReproduceRows(const RowsOptions& options);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_REPRODUCED_ROWS_H_
