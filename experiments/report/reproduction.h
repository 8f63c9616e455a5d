#ifndef EMPLACE_EXPERIMENTS_REPORT_REPRODUCTION_H_
#define EMPLACE_EXPERIMENTS_REPORT_REPRODUCTION_H_

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "experiments/report/metrics.h"
#include "experiments/report/published.h"
#include "experiments/report/published_rows.h"
#include "experiments/report/statistics.h"
#include "experiments/run/run_reader.h"
#include "sim/base/json_value.h"

namespace emplace::experiments {

// A method in a row of a paper's table: ours, theirs or both. Values in the unit that reports show.
struct ReproducedMethod {
  std::string label = {};             // agent.label, or the paper's name of a method that the experiment lacks
  std::string options = {};           // agent.set; the same for methods that belong together
  std::optional<Estimate> ours = {};  // none: `no_value` says why
  std::string no_value = {};          // "not in the experiment", "does not fit"
  std::optional<PublishedFigure> published = {};  // none: the paper does not have the method
  // Divided by the same of the baseline, if that has both values.
  std::optional<double> our_ratio = {};
  std::optional<double> published_ratio = {};
  // Among the methods of its OrderAgreement; 1 is the best, and ties share the mean of their ranks.
  std::optional<double> our_rank = {};
  std::optional<double> published_rank = {};
};

// How far two orders of the same methods agree. A pair counts that the paper orders, so does not tie.
struct OrderAgreement {
  std::vector<std::string> labels = {};  // at least two, best of ours first
  std::size_t ordered = 0;               // pairs
  std::size_t alike = 0;
  std::size_t reversed = 0;             // the others of `ordered` are ties here
  std::optional<double> spearman = {};  // SpearmanCorrelation
};

// A row in one metric.
struct ReproducedTable {
  std::string row = {};     // its title
  std::string column = {};  // if the row's trials are in several cells of the experiment: which
  const MetricEntry* metric = nullptr;
  std::vector<std::string> tables = {};  // tables of the paper
  std::string baseline = {};             // "expert"; "": none has both values
  // Ours that the paper lacks are left out if the experiment has none of the paper's.
  std::vector<ReproducedMethod> methods = {};  // those of the paper in its order, then ours as planned
  std::vector<OrderAgreement> orders = {};     // one, or one for each set of options if figures match several methods
};

// Puts the trials of a row beside its figures: a table for each metric in the order of the figures. `specs`: of all
// trials that the experiment has in the row. `trials`: the finished ones.
std::vector<ReproducedTable> ReproduceRow(const PublishedRow& row, const PublishedFigures& published,
                                          const std::vector<JsonValue>& specs, const std::vector<TrialRecord>& trials);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_REPORT_REPRODUCTION_H_
