#ifndef EMPLACE_AGENTS_RL_DOPPLER_ROLLOUT_H_
#define EMPLACE_AGENTS_RL_DOPPLER_ROLLOUT_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "agents/environment.h"
#include "agents/nn/kernel.h"
#include "agents/rl/doppler/dual_policy.h"
#include "agents/rl/doppler/partial_schedule.h"
#include "sim/base/rng.h"
#include "sim/placement.h"

namespace emplace::agents {

// Adds to `likelihood` the gradient, with respect to the logits, of -ln(sum of the probabilities of the targets), and
// to `entropy` that of -H, H the entropy in nats. [num_choices] each. Requires: a target has a probability above 0.
void AddChoiceGradients(std::span<const double> probabilities, std::span<const std::uint8_t> is_target,
                        std::span<float> likelihood, std::span<float> entropy);

// How the policies decide: with probability `epsilon` uniformly; else by a draw from the softmax, or for the largest
// logit.
struct Exploration {
  bool draw = false;
  double epsilon = 0;
};

// What the gradients of an episode are of: the probabilities of what was chosen, or of what the critical-path policy
// would have chosen in the same state. It accepts all that it ranks equal.
enum class RolloutTarget : std::uint8_t { kChosen, kTeacher };

// What RunEpisode() adds to the logits of devices for a group, [num_devices]: the constant of start_prior.h for the
// device where problem.start has it, if that is allowed.
void AddStartPrior(const AssignmentProblem& problem, std::uint32_t group, std::span<const std::uint8_t> allowed,
                   std::span<float> logits);

// One episode of the policies, and the gradients with respect to their outputs of losses summed over its steps.
struct Rollout {
  AssignmentEpisode episode;
  Placement placement;
  std::vector<float> select_likelihood;  // [num_groups], with respect to node_scores(): see AddChoiceGradients
  std::vector<float> select_entropy;
  Matrix place_likelihood;  // [num_steps, num_devices], with respect to the logits of each step
  Matrix place_entropy;
  double mean_entropy = 0;               // over steps with a choice: H / ln(number of choices)
  double loss = 0;                       // sum over steps and policies of -ln(probability of the target)
  std::size_t like_teacher[2] = {0, 0};  // steps in which the group and the device are of the teacher's
};

// Runs an episode. Requires: policy.Embed(problem). Throws InputError at `place` if a logit is not finite.
Rollout RunEpisode(const Observation& seen, const AssignmentProblem& problem, const Exploration& exploration,
                   RolloutTarget target, const std::string& place, DualPolicy& policy, Rng& rng);

// Adds the gradients with respect to the weights of `likelihood_weight` * likelihood + `entropy_weight` * entropy, both
// means over the episode's steps. The part through SEL is only added to *d_scores, for policy.Backward().
void AddRolloutLoss(const Rollout& rollout, double likelihood_weight, double entropy_weight, DualPolicy& policy,
                    std::span<float> d_scores, std::span<float> gradients);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_RL_DOPPLER_ROLLOUT_H_
