#include "experiments/validation/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

namespace emplace::experiments {
namespace {

constexpr double kGoalSpearman = 0.97;

std::string Percent(double part) { return fmt::format("{:.1f} %", 100 * part); }

// The compared placement that takes the least time in the simulator; null if none was measured against a reference.
const ValidationCase* BestSimulated(std::span<const ValidationCase> cases) {
  const ValidationCase* best = nullptr;
  for (const ValidationCase& one : cases) {
    if (!one.Compared() || !one.speed_up) continue;
    if (best == nullptr || one.simulated.micros < best->simulated.micros) best = &one;
  }
  return best;
}

std::string OfTheBest(const ValidationCase& best, const ValidationSummary& summary) {
  const MeanOfRounds& times = *best.speed_up;
  const std::string simulated =
      summary.simulated_reference_micros > 0
          ? fmt::format("; the simulator says {:.2f}", summary.simulated_reference_micros / best.simulated.micros)
          : "";
  const std::string interval = times.interval
                                   ? fmt::format("95 %: {:.2f} to {:.2f}", times.interval->low, times.interval->high)
                                   : "too few rounds to say how sure that is";
  const std::string detail = fmt::format("{:.2f} times as fast ({}{})", times.mean, interval, simulated);
  const std::string which = fmt::format("{}, the best in the simulator,", best.label);
  if (!times.interval) return fmt::format("{} is {} as {}", which, detail, summary.reference);
  if (times.interval->low > 1)
    return fmt::format("{} is faster than {} for real: {}", which, summary.reference, detail);
  if (times.interval->high < 1)
    return fmt::format("{} is slower than {} for real: {}", which, summary.reference, detail);
  return fmt::format("{} is neither faster nor slower than {}, as far as this measurement can tell: {}", which,
                     summary.reference, detail);
}

std::string OfTheOrder(const ValidationSummary& summary) {
  if (!summary.simulated.step.spearman) return "the order: too few placements that differ to say anything";
  const double kept = *summary.simulated.step.spearman;
  const std::optional<double> own = summary.ceiling ? summary.ceiling->spearman : std::nullopt;
  const std::string numbers = own ? fmt::format("Spearman {:.3f}; odd against even rounds {:.3f}", kept, *own)
                                  : fmt::format("Spearman {:.3f}", kept);
  constexpr double kTellsApart = 0.5;
  if (own && *own < kTellsApart) {
    return fmt::format(
        "the machine does not keep the order of these placements itself, so theirs in the simulator "
        "says nothing: {}",
        numbers);
  }
  constexpr double kNearOwn = 0.01;
  if (kept < 0) return fmt::format("the order is reversed: what the simulator calls faster is slower ({})", numbers);
  if (kept >= std::min(kGoalSpearman, own ? *own - kNearOwn : kGoalSpearman)) {
    return fmt::format("the order is kept{}: {}",
                       own && kept < kGoalSpearman ? ", as well as the machine itself keeps it" : "", numbers);
  }
  constexpr double kMostly = 0.8;
  constexpr double kInPart = 0.4;
  return fmt::format("the order is {}: {}",
                     kept >= kMostly   ? "mostly kept"
                     : kept >= kInPart ? "kept in part"
                                       : "lost",
                     numbers);
}

std::string OfTheError(const ValidationSummary& summary) {
  const StepErrors& errors = summary.simulated.step;
  std::string text = fmt::format("the simulator is off by {} in the median and {} in nine of ten",
                                 Percent(errors.median), Percent(errors.p90));
  if (!summary.ceiling) return text;
  text += fmt::format("; odd rounds are off from even ones by {} and {}", Percent(summary.ceiling->median),
                      Percent(summary.ceiling->p90));
  if (summary.rerun) {
    text += fmt::format("; the earlier run is off from this one by {} and {}", Percent(summary.rerun->median),
                        Percent(summary.rerun->p90));
  }
  if (errors.median <= summary.ceiling->median) text += ": it is as near as the machine is to itself";
  return text;
}

}  // namespace

std::vector<std::string> Verdict(std::span<const ValidationCase> cases, const ValidationSummary& summary) {
  std::vector<std::string> sentences;
  if (summary.compared == 0) return sentences;
  if (const ValidationCase* const best = BestSimulated(cases)) sentences.push_back(OfTheBest(*best, summary));
  sentences.push_back(OfTheOrder(summary));
  sentences.push_back(OfTheError(summary));
  constexpr double kMany = 0.1;
  if (static_cast<double>(summary.disturbed_steps) > kMany * static_cast<double>(summary.counted_steps)) {
    sentences.push_back(fmt::format("other programs disturbed {} of {} steps: run it again when the machine is idle",
                                    summary.disturbed_steps, summary.counted_steps));
  }
  for (const std::string& advice : {summary.load_advice, summary.clock_advice}) {
    if (!advice.empty()) sentences.push_back(advice);
  }
  return sentences;
}

}  // namespace emplace::experiments
