#ifndef EMPLACE_EXPERIMENTS_REPORT_REPORT_PICTURES_H_
#define EMPLACE_EXPERIMENTS_REPORT_REPORT_PICTURES_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "experiments/report/report_document.h"
#include "experiments/report/report_grid.h"
#include "experiments/run/run_reader.h"
#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/graph.h"

namespace emplace::experiments {

// What the picture of a trial's placement needs beside the placement: the problem that its spec says.
struct PictureInputs {
  Graph graph;
  Cluster cluster;
  CostTable costs;
  std::string engine;
};
// Builds the problem of a spec.json; nullopt if it cannot: the report then has no picture of that trial, and says so.
using RebuildProblem = std::function<std::optional<PictureInputs>(const JsonValue& spec)>;

// The part "Best placements": the best one of each dataset drawn. Empty where no trial has its placement. Throws
// InputError on a best_placement.json that was changed or is not of its graph.
std::vector<ReportBlock> PictureBlocks(const ExperimentRuns& runs, const ReportGrid& grid,
                                       const RebuildProblem& rebuild);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_REPORT_PICTURES_H_
