#ifndef EMPLACE_EXPERIMENTS_VALIDATION_VALIDATION_JSON_H_
#define EMPLACE_EXPERIMENTS_VALIDATION_VALIDATION_JSON_H_

#include <iosfwd>
#include <span>

#include "experiments/validation/validation.h"

namespace emplace::experiments {

// `emplace.validation` version 1: the summary, the ops that contribute most to the error, and every placement with its
// step times and its busy times by device.
void WriteValidation(std::ostream& out, const Graph& graph, const Cluster& cluster,
                     std::span<const ValidationCase> cases, const ValidationSummary& summary);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_VALIDATION_VALIDATION_JSON_H_
