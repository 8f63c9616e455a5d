#ifndef EMPLACE_EXPERIMENTS_REPORT_DIFFERENCE_H_
#define EMPLACE_EXPERIMENTS_REPORT_DIFFERENCE_H_

#include <cstddef>
#include <iosfwd>
#include <string>

#include "agents/explain/placement_diff.h"
#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/formats/result_json.h"
#include "sim/graph.h"
#include "sim/placement.h"
#include "sim/simulator.h"
#include "sim/step_explanation.h"

namespace emplace::experiments {

// Two placements of one graph, simulated, with the pieces in which they differ.
struct Difference {
  StepReport report_a;
  StepReport report_b;
  StepExplanation step_a;
  StepExplanation step_b;
  agents::PlacementDiff pieces;
};
// Requires: both placements pass CheckPlacement, and `simulator` is of the graph, the cluster and the costs, with peak
// memory. Throws InputError where ExplainStep does.
Difference MakeDifference(const Graph& graph, const Cluster& cluster, const CostTable& costs, const Placement& a,
                          const Placement& b, const Simulator& simulator, std::size_t max_pieces, agents::DiffBy by,
                          const agents::OnSimulations& on_simulations = {});

// `emplace.diff` version 1: docs/formats.md. The names are those of the files.
void WriteDifference(std::ostream& out, const Difference& difference, const Graph& graph, const Cluster& cluster,
                     const std::string& name_a, const std::string& name_b);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_DIFFERENCE_H_
