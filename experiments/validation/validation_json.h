#ifndef EMPLACE_EXPERIMENTS_VALIDATION_VALIDATION_JSON_H_
#define EMPLACE_EXPERIMENTS_VALIDATION_VALIDATION_JSON_H_

#include <iosfwd>
#include <span>

#include "experiments/validation/validation.h"

namespace emplace::experiments {

// `emplace.validation` version 1: the summary, the ops that explain most of the error, and every placement with its
// step times and, by device, its busy times.
void WriteValidation(std::ostream& out, const Graph& graph, const Cluster& cluster,
                     std::span<const ValidationCase> cases, const ValidationSummary& summary);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_VALIDATION_VALIDATION_JSON_H_
