#ifndef EMPLACE_EXPERIMENTS_REPORT_EXPLANATION_H_
#define EMPLACE_EXPERIMENTS_REPORT_EXPLANATION_H_

#include <cstddef>
#include <iosfwd>

#include "agents/explain/moves.h"
#include "experiments/report/document.h"
#include "sim/cluster.h"
#include "sim/cost_model.h"
#include "sim/formats/result_json.h"
#include "sim/graph.h"
#include "sim/placement.h"
#include "sim/simulator.h"
#include "sim/step_explanation.h"
#include "sim/timeline.h"

namespace emplace::experiments {

// A simulated step of a placement, explained, with the moves that would make it shorter.
struct Explanation {
  StepReport report;
  Timeline timeline;
  StepExplanation step;
  agents::MoveResults moves;
};
// Requires: the placement passes CheckPlacement, and `simulator` is of the graph, the cluster and the costs, with peak
// memory. Throws InputError where ExplainStep does.
Explanation MakeExplanation(const Graph& graph, const Cluster& cluster, const CostTable& costs,
                            const Placement& placement, const Simulator& simulator, std::size_t max_simulations,
                            const agents::OnSimulations& on_simulations = {});

// How many moves are shown, in the order of their gains.
inline constexpr std::size_t kShownMoves = 10;

// `emplace.explanation` version 1: docs/formats.md.
void WriteExplanation(std::ostream& out, const Explanation& explanation, const Graph& graph, const Cluster& cluster,
                      const Placement& placement);

// A page for WriteHtml: the summary, the timeline with the chain, devices, moves, ops with the least slack. Bounded,
// whatever the graph.
ReportDocument MakeExplanationPage(const Explanation& explanation, const Graph& graph, const Cluster& cluster,
                                   const Placement& placement);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_EXPLANATION_H_
