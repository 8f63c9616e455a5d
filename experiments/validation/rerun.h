#ifndef EMPLACE_EXPERIMENTS_VALIDATION_RERUN_H_
#define EMPLACE_EXPERIMENTS_VALIDATION_RERUN_H_

#include <cstddef>
#include <iosfwd>
#include <map>
#include <optional>
#include <span>
#include <string>

#include "experiments/validation/validation.h"

namespace emplace::experiments {

// The measurements of a placement by an earlier validation. Times in µs.
struct EarlierCase {
  double simulated_micros = 0;
  double measured_micros = 0;
};

// The measured cases of an `emplace.validation` file, by label. Throws InputError, its place in the file.
std::map<std::string, EarlierCase> ReadValidation(std::istream& in);

// The errors of an earlier validation as a prediction of this one: the machine's own error from one hour to
// another. Of placements that both measured; nullopt if there is none. Throws InputError if the simulator gives one of
// them another time than it did: it is another placement, or the profile has changed.
std::optional<StepErrors> CompareWithEarlier(const std::map<std::string, EarlierCase>& earlier,
                                             std::span<const ValidationCase> cases);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_VALIDATION_RERUN_H_
