#ifndef EMPLACE_EXPERIMENTS_LIBRARY_PLANS_PLAN_SCORE_H_
#define EMPLACE_EXPERIMENTS_LIBRARY_PLANS_PLAN_SCORE_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "experiments/library/plans/plan_cells.h"
#include "experiments/library/plans/planners.h"
#include "sim/base/json_struct.h"

namespace emplace::experiments {

// A planner that is compiled in, or one in a process of its own.
struct PlannerChoice {
  std::string name;
  const PlannerEntry* entry = nullptr;  // null: `command` is run for each cell
  std::vector<std::string> command = {};
};
// Throws InputError(place) with the names of those that are compiled in.
PlannerChoice FindPlanner(const std::string& name, const std::string& place);

struct PlanScoreOptions {
  std::size_t queries = 10;  // measurements that a planner may ask for in a cell
  std::chrono::duration<double> patience = std::chrono::seconds(60);
  std::uint64_t seed = 1;
};

// What a planner proposed in a cell, in order: one plan more than it had measurements of. A planner that was stopped
// has a last proposal that failed.
struct PlanRun {
  std::vector<std::optional<double>> step_s;  // measured; none: it failed
  std::string chosen;                         // the first proposal; "": none
  std::string problem;                        // why the planner was stopped, or the first proposal that is no setting

  static void Fields(auto& visit, auto& self) {
    visit("step_s", self.step_s);
    visit("chosen", self.chosen);
    visit("problem", self.problem);
  }

  std::size_t failed() const;
};

// The runs of a planner in a cell: one, or kRandomRuns of one that is random, with seeds that follow each other.
inline constexpr std::size_t kRandomRuns = 100;
std::vector<PlanRun> RunPlanner(const PlannerChoice& planner, const PlanCell& cell, const PlanScoreOptions& options);

// The best measured step of the cell, by the shortest step among the first `queries` + 1 proposals; 0 if all failed.
// Requires: something ran in the cell.
double Reached(const PlanRun& run, const PlanCell& cell, std::size_t queries);
// How many measurements came before the first proposal within 5 % of the best; none: there is no such proposal.
std::optional<std::size_t> QueriesToNearBest(const PlanRun& run, const PlanCell& cell);

inline constexpr std::array<std::size_t, 5> kShownQueries = {0, 1, 2, 5, 10};

// Means over the cells in which something ran, and over runs.
struct PlanSummary {
  std::string table;                                  // "": all
  std::size_t cells = 0;                              // in which something ran
  double reached = 0;                                 // by the first proposal
  double spread = 0;                                  // the standard deviation of `reached` between runs
  double chosen_failed = 0;                           // cells whose first proposal failed, or that had none
  std::array<double, kShownQueries.size()> regret{};  // 1 - Reached
  double proposals = 0;                               // in all these cells
  double failed = 0;                                  // of those
  double near_best = 0;                               // cells with a proposal within 5 % of the best
  std::optional<double> queries_to_near_best;         // in these
  std::size_t nothing_ran = 0;                        // in which nothing ran
  double nothing_ran_wrong = 0;                       // of those, cells in which a plan was proposed
};

struct PlannerScore {
  PlannerChoice planner;
  std::vector<std::vector<PlanRun>> runs;  // of each cell
};
// The summary over the cells of a table, or over all cells if `table` is "".
PlanSummary Summarise(const PlannerScore& score, const std::vector<const PlanCell*>& cells, const std::string& table);

// `emplace.plan_cell` version 1, for planners and for `library show`: everything but the measurements.
JsonObject PlanCellToJson(const PlanCell& cell);
// `emplace.plan_scores` version 1 (docs/formats.md).
JsonObject PlanScoresToJson(const std::vector<PlannerScore>& scores, const std::vector<const PlanCell*>& cells,
                            const PlanScoreOptions& options);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_LIBRARY_PLANS_PLAN_SCORE_H_
