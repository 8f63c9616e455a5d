#ifndef EMPLACE_EXPERIMENTS_LIBRARY_SCORE_LIBRARY_SCORE_H_
#define EMPLACE_EXPERIMENTS_LIBRARY_SCORE_LIBRARY_SCORE_H_

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "experiments/report/document.h"
#include "sim/base/json_struct.h"
#include "sim/base/json_value.h"
#include "sim/base/options.h"

namespace emplace::experiments {

// The result of one search on an instance.
struct BudgetResult {
  std::uint64_t budget = 0;        // evaluations that were allowed
  std::uint64_t evaluations = 0;   // evaluations used
  std::uint64_t step_time_ns = 0;  // step time of the best placement; 0 if `found` is false
  bool found = false;              // a placement that fits

  static void Fields(auto& visit, auto& self) {
    visit("budget", self.budget);
    visit("evaluations", self.evaluations);
    visit("step_time_ns", self.step_time_ns);
    visit("found", self.found);
  }
};

// The results of a searcher on one instance: a search for each budget, and the course of the one with the largest.
struct InstanceScore {
  std::string instance;
  std::string hash;                   // hash of the instance
  std::vector<BudgetResult> results;  // ordered by budget
  std::vector<std::pair<std::uint64_t, std::uint64_t>>
      trace;                 // evaluations, and the best step time in ns from there on
  std::string refused = {};  // why the searcher refused the instance, if it did: it has found nothing then

  static void Fields(auto& visit, auto& self) {
    visit("instance", self.instance, {.not_empty = true});
    visit("hash", self.hash);
    visit("results", self.results, {.allowed = "a list of at least one result", .not_empty = true});
    visit("trace", self.trace, {.allowed = "a list of pairs of integers"});
    visit("refused", self.refused, {.optional = true, .written = !self.refused.empty()});
  }
};

// scores.json, `emplace.library_scores` version 1: what the seed determines.
struct LibraryScores {
  std::string schema = "emplace.library_scores";
  std::uint64_t version = 1;
  std::string label;  // name of the searcher in tables
  std::string agent;
  OptionMap set;
  std::uint64_t seed = 0;
  std::string emplace;  // the program's version
  std::vector<InstanceScore> instances;

  static void Fields(auto& visit, auto& self) {
    visit("schema", self.schema);
    visit("version", self.version);
    visit("label", self.label, {.not_empty = true});
    visit("agent", self.agent, {.not_empty = true});
    visit("set", self.set);
    visit("seed", self.seed, {.most = std::numeric_limits<std::int64_t>::max()});
    visit("emplace", self.emplace);
    visit("instances", self.instances, {.needed = "a list of scores"});
  }
};
// Both throw InputError; of ReadLibraryScores its place starts with `file`.
LibraryScores ReadLibraryScores(std::istream& in, const std::string& file);
void WriteLibraryScores(std::ostream& out, const LibraryScores& scores);

// The geometric mean of step time / best known step time, less 1, in percent. Requires: not empty, all > 0.
double GeometricMeanGap(std::span<const double> ratios);

// The primal integral over evaluations, divided by the budget, in percent: the mean over evaluations 1 to `budget` of
// the primal gap, which is 1 until something is found, and then (step - best) / step, at least 0.
// Source: Berthold 2013, "Measuring the impact of primal heuristics", definitions 1 and 2; evaluations instead of time.
// Requires: `trace` ascends, budget > 0.
double PrimalIntegral(std::span<const std::pair<std::uint64_t, std::uint64_t>> trace, std::uint64_t budget,
                      std::uint64_t best_ns);

// The score of one searcher on one tier.
struct TierScore {
  std::string label;
  std::size_t instances = 0;
  std::vector<std::optional<double>> gaps;  // percent, by budget of the page; none: it was not run with that budget
  std::size_t not_found = 0;                // instances not solved with the largest budget
  std::size_t records = 0;                  // results better than the best known
  double primal_integral = 0;               // percent, mean over instances
};

// A page that sets `own` beside `others`, one part for each tier. Another's scores count in a tier if they cover all
// instances of `own` there, with the same hashes. Instances without a best known step time are left out.
ReportDocument MakeScorePage(const LibraryScores& own, std::span<const LibraryScores> others);
// The tables of that page: for each tier of which `own` has instances, a score of each searcher, `own` first.
std::vector<std::pair<std::string, std::vector<TierScore>>> CompareScores(const LibraryScores& own,
                                                                          std::span<const LibraryScores> others);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_LIBRARY_SCORE_LIBRARY_SCORE_H_
