#ifndef EMPLACE_EXPERIMENTS_RUN_HARDWARE_REWARD_H_
#define EMPLACE_EXPERIMENTS_RUN_HARDWARE_REWARD_H_

#include <cstddef>
#include <iosfwd>
#include <mutex>
#include <optional>
#include <vector>

#include "agents/checkpoint.h"
#include "agents/settings.h"
#include "experiments/run/trial_record.h"
#include "sim/evaluator.h"

namespace emplace::experiments {

// Evaluates by the simulator, by the hardware, or by both:
// - simulator: the simulator.
// - hardware: the hardware.
// - mixed: the hardware for evaluation i (from 1) if floor(i * share) > floor((i - 1) * share), so that the share
//   holds at any time, and for every validate_every-th evaluation; else the simulator.
// Evaluations are counted in the order of the calls. With one thread every run is the same, except for measured times.
// The saved state is the progress, checks included.
class RewardEvaluator : public Evaluator, public agents::SearchPart {
 public:
  // Keeps references. Requires: both evaluators record starts and peaks if the agent needs them.
  RewardEvaluator(const Evaluator& simulator, const Evaluator& hardware, const agents::SearchSettings& settings)
      : simulator_(simulator), hardware_(hardware), settings_(agents::Resolved(settings)) {}

  StepResult Run(const Placement& placement) const override;

  void Save(std::ostream& out) const override;
  void Load(std::istream& in) override;

  const std::vector<HardwareCheck>& checks() const { return course_.checks; }

 private:
  bool IsMeasured(std::size_t evaluation) const;

  const Evaluator& simulator_;
  const Evaluator& hardware_;
  const agents::SearchSettings settings_;
  mutable std::mutex mutex_;
  struct Course {
    std::size_t evaluations = 0;
    std::vector<HardwareCheck> checks;

    static void SavedFields(auto& state, auto& self) {
      state(self.evaluations);
      state.Lines(self.checks);
    }
  };
  mutable Course course_;
};

}  // namespace emplace::experiments

#endif  // EMPLACE_EXPERIMENTS_RUN_HARDWARE_REWARD_H_
