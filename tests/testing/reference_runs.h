#ifndef EMPLACE_TESTS_TESTING_REFERENCE_RUNS_H_
#define EMPLACE_TESTS_TESTING_REFERENCE_RUNS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "sim/graph.h"

namespace emplace::testing {

// One run of the published Placeto / Park simulator on one graph.
struct ReferenceRun {
  std::vector<std::string> devices;
  std::vector<std::uint32_t> placement;  // [num_ops], in file order
  double step_time_micros = 0;
  std::vector<double> start_micros;      // [num_ops], in file order; empty if not stored
  std::vector<std::int64_t> peak_bytes;  // [num_devices]
};

struct ReferenceCase {
  std::string name;
  Graph graph;
  double delta1_micros = 5.7;
  double delta2_micros = 25;
  double offset_micros = 0;
  double bytes_per_micro = 7600;
  std::vector<ReferenceRun> runs;
};

// Reads a file of the synthetic set (`placeto-oracle`) or of the set of real graphs (`placeto-golden`).
ReferenceCase ReadReferenceCase(const std::string& path);

// The reference files below a folder, sorted; empty if the folder does not exist.
std::vector<std::string> ReferenceFiles(const std::string& folder);

// The result of one file's runs: the number of checked runs, and the differences (one line each).
struct ReferenceReport {
  std::size_t runs = 0;
  std::size_t starts = 0;   // start times compared
  double worst_micros = 0;  // largest difference of any step or start time
  std::vector<std::string> differences;
};
ReferenceReport CheckReferenceCase(const ReferenceCase& reference);

}  // namespace emplace::testing

#endif  // EMPLACE_TESTS_TESTING_REFERENCE_RUNS_H_
