#ifndef EMPLACE_EXPERIMENTS_VALIDATION_ROUNDS_H_
#define EMPLACE_EXPERIMENTS_VALIDATION_ROUNDS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

// Measuring on a machine that others use too. It is faster in one minute and slower in the next, so two placements that
// are measured one after the other are compared as much with the minute as with each other. Here every placement is
// visited once in each of some rounds, in an order that changes, and one placement, the reference, before and after
// each visit. What counts is the ratio of a step to the reference's steps around it.
namespace emplace::experiments {

struct RoundsOptions {
  std::size_t rounds = 10;
  std::uint64_t seed = 1;  // seed of the order within each round
};

// Step times in µs.
struct Rounds {
  struct Visit {
    double micros = 0;
    double reference = 0;  // mean of the reference's steps before and after it
  };
  std::vector<std::vector<Visit>> visits;  // [placement][round]; fewer, or none, of what did not fit
  std::vector<double> reference;           // all steps of the reference, in order
};

// The result of a visit: the step time of a placement, or of the reference (nullopt); nullopt if it does not fit.
using VisitPlacement = std::function<std::optional<double>(std::optional<std::size_t> placement)>;

// Visits `num_placements` placements. One that does not fit is not visited again. `goes_on` is called after each round.
// Returns nullopt if the reference does not fit.
std::optional<Rounds> MeasureInRounds(std::size_t num_placements, const RoundsOptions& options,
                                      const VisitPlacement& visit, const std::function<bool()>& goes_on);

// A mean without the tenth of the values at either end, and its 95 % interval (none of fewer than three values).
// Source: Tukey and McLaughlin 1963, "Less vulnerable confidence and significance procedures for location based on a
// single sample": Student's t with the winsorised variance.
struct MeanOfRounds {
  struct Interval {
    double low = 0;
    double high = 0;
  };
  double mean = 0;
  std::optional<Interval> interval = {};
};
// Requires: at least one value.
MeanOfRounds MeanOver(std::vector<double> values);

// The step time that each visit would have had if the machine had always run at its average speed.
std::vector<double> SteadyMicros(const Rounds& rounds, std::size_t placement);

// How many times as fast as the reference a placement is: reference / step, round by round.
MeanOfRounds SpeedUp(std::span<const Rounds::Visit> visits);

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_VALIDATION_ROUNDS_H_
