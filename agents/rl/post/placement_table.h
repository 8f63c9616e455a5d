#ifndef EMPLACE_AGENTS_RL_POST_PLACEMENT_TABLE_H_
#define EMPLACE_AGENTS_RL_POST_PLACEMENT_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/base/rng.h"
#include "sim/base/units.h"
#include "sim/placement.h"

namespace emplace::agents {

// [num_groups]: the chosen device of each group, as an index into its list.
using Choices = std::vector<std::uint16_t>;

// Post's policy: an independent distribution for each group over its allowed devices, with a logit for each device.
// No network and no features. All logits start at 0, so every distribution is uniform.
// Source: Gao et al. 2018 (Post), section 3.
class PlacementTable {
 public:
  // devices: [num_groups], none empty.
  explicit PlacementTable(std::vector<std::vector<DeviceId>> devices = {});

  // Makes `placement` the likeliest, as StartLogit() says (agents/rl/start_prior.h).
  // Requires: each group is on a device of its list; nothing has been learned.
  void Expect(const Placement& placement);

  std::size_t num_groups() const { return devices_.size(); }
  // Distribution of a group: [number of its devices], sum 1.
  std::span<const double> probabilities(std::size_t group) const {
    return {probabilities_.data() + offsets_[group], offsets_[group + 1] - offsets_[group]};
  }
  Choices Sample(Rng& rng) const;
  Choices Likeliest() const;
  Placement ToPlacement(const Choices& choices) const;
  // Mean over the groups with more than one device of H / log(number of devices); 0 if there is none.
  double MeanEntropy() const;

  // `steps` gradient ascent steps of size `rate` on
  //   1/K sum over samples n, sum over groups m of (f(d_nm) / f'(d_nm)) A_n  -  beta sum over m of KL(f'_m || f_m),
  // Here f' are the distributions before the first step and A_n the advantages, [K]. Without clipping. One step with
  // beta 0 is a REINFORCE step. Throws InputError if a logit is not finite.
  // Source: Gao et al. 2018, section 3.3, equation 11.
  struct Climbed {
    double divergence = 0;     // mean over groups of KL(f'_m || f_m) afterwards
    double gradient_norm = 0;  // norm in the last step with respect to all logits, without `rate`
  };
  Climbed Climb(std::span<const Choices> samples, std::span<const double> advantages, double rate, std::size_t steps,
                double beta);

  // f = (1 - epsilon) (share of the samples that chose each device) + epsilon / (number of devices). At least 1e-6, so
  // that no logit is infinite. Source: Gao et al. 2018, section 3.2 and algorithm 1.
  void CrossEntropy(std::span<const Choices> elite, double epsilon);

  template <typename State>
  static void SavedFields(State& state, auto& self) {
    state(self.devices_);
    for (const auto& of_group : self.devices_) state.Check(!of_group.empty(), "a device of each group");
    if constexpr (State::kLoads) self.Resize();
    for (auto& logit : self.logits_) state(logit);
    if constexpr (State::kLoads) self.Normalize();
  }

 private:
  void Resize();
  void Normalize();

  std::vector<std::vector<DeviceId>> devices_;
  std::vector<std::size_t> offsets_;  // [num_groups + 1]
  std::vector<double> logits_;
  std::vector<double> probabilities_;  // softmax of the logits
};

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_RL_POST_PLACEMENT_TABLE_H_
