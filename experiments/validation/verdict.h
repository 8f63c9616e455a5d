#ifndef EMPLACE_EXPERIMENTS_VALIDATION_VERDICT_H_
#define EMPLACE_EXPERIMENTS_VALIDATION_VERDICT_H_

#include <span>
#include <string>
#include <vector>

#include "experiments/validation/validation.h"

namespace emplace::experiments {

// The conclusions of a validation, in sentences: how much faster the simulator's best placement is in reality, and
// how sure that is; whether the order of placements is kept; how near the simulator comes, beside how near the machine
// comes to itself; and whether others disturbed the measurement. Empty if nothing was compared.
std::vector<std::string> Verdict(std::span<const ValidationCase> cases, const ValidationSummary& summary);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_VALIDATION_VERDICT_H_
