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

// What an earlier validation measured of a placement. Times in µs.
struct EarlierCase {
  double simulated_micros = 0;
  double measured_micros = 0;
};

// The measured cases of an `emplace.validation` file, by label. Throws InputError, its place in the file.
std::map<std::string, EarlierCase> ReadValidation(std::istream& in);

// What an earlier validation says of this one, as if it were a prediction: the machine's own error from one hour to
// another. Of placements that both measured; nullopt if there is none. Throws InputError if the simulator gives one of
// them another time than it did: it is another placement, or the profile has changed.
std::optional<StepErrors> CompareWithEarlier(const std::map<std::string, EarlierCase>& earlier,
                                             std::span<const ValidationCase> cases);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_VALIDATION_RERUN_H_
