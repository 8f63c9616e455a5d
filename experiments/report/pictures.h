#ifndef EMPLACE_EXPERIMENTS_REPORT_PICTURES_H_
#define EMPLACE_EXPERIMENTS_REPORT_PICTURES_H_

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "experiments/report/document.h"
#include "experiments/report/grid.h"
#include "experiments/run/run_reader.h"
#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/graph.h"

namespace emplace::experiments {

// Inputs of a placement picture besides the placement: the problem in the trial's spec.
struct PictureInputs {
  Graph graph;
  Cluster cluster;
  CostTable costs;
  std::string engine;
};
// Builds the problem of a spec.json. If it cannot, returns nullopt, and the report states that the picture is missing.
using RebuildProblem = std::function<std::optional<PictureInputs>(const JsonValue& spec)>;

// The section "Best placements": a picture of the best placement of each dataset. Empty if no trial has its placement.
// Throws InputError if a best_placement.json was changed or does not match its graph.
std::vector<ReportBlock> PictureBlocks(const ExperimentRuns& runs, const ReportGrid& grid,
                                       const RebuildProblem& rebuild);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_PICTURES_H_
