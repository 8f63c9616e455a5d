#ifndef EMPLACE_EXPERIMENTS_REPORT_REPORT_H_
#define EMPLACE_EXPERIMENTS_REPORT_REPORT_H_

#include <functional>
#include <optional>
#include <vector>

#include "experiments/report/report_document.h"
#include "experiments/run/run_reader.h"
#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/graph.h"

namespace emplace {

// What the picture of a trial's placement needs beside the placement: the problem that its spec says.
struct PictureInputs {
  Graph graph;
  Cluster cluster;
  CostTable costs;
  std::string engine;
};
// Builds the problem of a spec.json; nullopt if it cannot: the report then has no picture of that trial, and says so.
using RebuildProblem = std::function<std::optional<PictureInputs>(const JsonValue& spec)>;

// The answers that runs give to their experiments' questions: what ran, a table for each metric with published figures
// beside ours, paired tests, learning curves, and the best placement of each dataset drawn. Same runs, same report.
// Throws InputError on an unknown metric or published table, and on a best_placement.json that is none of its graph.
ReportDocument MakeReport(const std::vector<ExperimentRuns>& experiments, const RebuildProblem& rebuild);

}  // namespace emplace

#endif  // EMPLACE_EXPERIMENTS_REPORT_REPORT_H_
