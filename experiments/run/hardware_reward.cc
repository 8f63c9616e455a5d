#include "experiments/run/hardware_reward.h"

#include <cmath>
#include <utility>

#include "agents/saved_state.h"
#include "sim/base/check.h"

namespace emplace::experiments {

bool RewardEvaluator::IsMeasured(std::size_t evaluation) const {
  if (settings_.reward_source != "mixed") return settings_.MeasuresRewards();
  if (settings_.validate_every > 0 && evaluation % settings_.validate_every == 0) return true;
  const auto i = static_cast<double>(evaluation);
  return std::floor(i * settings_.share) > std::floor((i - 1) * settings_.share);
}

StepResult RewardEvaluator::Run(const Placement& placement) const {
  const std::lock_guard lock(mutex_);
  ++course_.evaluations;
  StepResult simulated = simulator_.Run(placement);
  if (!IsMeasured(course_.evaluations)) return simulated;
  StepResult real = hardware_.Run(placement);
  course_.checks.push_back({.evaluation = course_.evaluations,
                            .simulated_micros = simulated.step_time_micros,
                            .measured_micros = real.fits_memory ? std::optional(real.step_time_micros) : std::nullopt});
  return real;
}

void RewardEvaluator::Save(std::ostream& out) const {
  const std::lock_guard lock(mutex_);
  agents::SaveState(out, course_);
}

void RewardEvaluator::Load(std::istream& in) {
  Course course;
  agents::LoadState(in, &course);
  const std::lock_guard lock(mutex_);
  course_ = std::move(course);
}

}  // namespace emplace::experiments
