#include "agents/rl/doppler/rollout.h"

#include <algorithm>
#include <cmath>

#include "agents/rl/categorical.h"
#include "agents/rl/start_prior.h"

namespace emplace::agents {
namespace {

// One decision: a softmax over logits, a choice, and gradients.
class Decision {
 public:
  Decision(const Exploration& exploration, RolloutTarget target) : exploration_(exploration), target_(target) {}

  // Returns the choice. `likelihood` and `entropy` are added to. Requires: something is allowed.
  std::size_t Make(std::span<const float> logits, std::span<const std::uint8_t> allowed,
                   std::span<const std::uint8_t> teachers, Rng& rng, std::span<float> likelihood,
                   std::span<float> entropy) {
    probabilities_.resize(logits.size());
    Softmax(logits, allowed, probabilities_);
    const auto choices = static_cast<std::size_t>(std::count(allowed.begin(), allowed.end(), 1));
    const std::size_t chosen = Choose(allowed, choices, rng);
    if (target_ == RolloutTarget::kTeacher) {
      targets_.assign(teachers.begin(), teachers.end());
    } else {
      targets_.assign(logits.size(), 0);
      targets_[chosen] = 1;
    }
    AddChoiceGradients(probabilities_, targets_, likelihood, entropy);
    double sum = 0;
    for (std::size_t i = 0; i < targets_.size(); ++i) sum += targets_[i] != 0 ? probabilities_[i] : 0;
    loss_ -= std::log(std::max(sum, 1e-300));
    if (choices > 1) {
      entropy_ += RelativeEntropy(probabilities_, choices);
      ++decisions_;
    }
    return chosen;
  }

  double loss() const { return loss_; }
  double mean_entropy() const { return decisions_ > 0 ? entropy_ / static_cast<double>(decisions_) : 0; }

 private:
  std::size_t Choose(std::span<const std::uint8_t> allowed, std::size_t choices, Rng& rng) const {
    if (choices == 1) return static_cast<std::size_t>(std::find(allowed.begin(), allowed.end(), 1) - allowed.begin());
    if (exploration_.epsilon > 0 && rng.Uniform() < exploration_.epsilon) {
      std::size_t left = rng.Below(choices);
      std::size_t chosen = 0;
      while (allowed[chosen] == 0 || left-- > 0) ++chosen;
      return chosen;
    }
    return exploration_.draw ? Draw(probabilities_, rng) : Likeliest(probabilities_);
  }

  Exploration exploration_;
  RolloutTarget target_;
  std::vector<double> probabilities_;
  std::vector<std::uint8_t> targets_;
  double loss_ = 0;
  double entropy_ = 0;
  std::size_t decisions_ = 0;
};

// SEL's decision among the ready groups, whose scores, masks and gradients it gathers.
class Selection {
 public:
  // Returns a ready group. Sets *like_teacher if it is one of the critical ones.
  std::uint32_t Make(const PartialSchedule& schedule, std::span<const float> scores, Rng& rng, Decision* decision,
                     Rollout* rollout) {
    const std::vector<std::uint32_t>& ready = schedule.ready();
    logits_.clear();
    for (const std::uint32_t group : ready) logits_.push_back(scores[group]);
    allowed_.assign(ready.size(), 1);
    teachers_.assign(ready.size(), 0);
    for (const std::uint32_t i : schedule.Critical()) teachers_[i] = 1;
    likelihood_.assign(ready.size(), 0);
    entropy_.assign(ready.size(), 0);
    const std::size_t chosen = decision->Make(logits_, allowed_, teachers_, rng, likelihood_, entropy_);
    for (std::size_t i = 0; i < ready.size(); ++i) {
      rollout->select_likelihood[ready[i]] += likelihood_[i];
      rollout->select_entropy[ready[i]] += entropy_[i];
    }
    rollout->like_teacher[0] += teachers_[chosen];
    return ready[chosen];
  }

 private:
  std::vector<float> logits_;
  std::vector<std::uint8_t> allowed_;
  std::vector<std::uint8_t> teachers_;
  std::vector<float> likelihood_;
  std::vector<float> entropy_;
};

}  // namespace

void AddChoiceGradients(std::span<const double> probabilities, std::span<const std::uint8_t> is_target,
                        std::span<float> likelihood, std::span<float> entropy) {
  double targets = 0;
  for (std::size_t i = 0; i < probabilities.size(); ++i) targets += is_target[i] != 0 ? probabilities[i] : 0;
  const double in_all = Entropy(probabilities);
  for (std::size_t i = 0; i < probabilities.size(); ++i) {
    const double p = probabilities[i];
    if (p <= 0) continue;
    // Where the targets' probabilities underflow, the gradient is that of a probability of 1e-300.
    const double share = is_target[i] != 0 ? p / std::max(targets, 1e-300) : 0;
    likelihood[i] += static_cast<float>(p - share);
    entropy[i] += static_cast<float>(p * (std::log(p) + in_all));
  }
}

void AddStartPrior(const AssignmentProblem& problem, std::uint32_t group, std::span<const std::uint8_t> allowed,
                   std::span<float> logits) {
  if (!problem.start) return;
  const std::size_t device = Index((*problem.start)[MakeId<OpId>(group)]);
  if (allowed[device] == 0) return;
  const auto choices = static_cast<std::size_t>(std::count(allowed.begin(), allowed.end(), 1));
  logits[device] += static_cast<float>(StartLogit(problem.num_groups(), 1, choices - 1));
}

Rollout RunEpisode(const Observation& seen, const AssignmentProblem& problem, const Exploration& exploration,
                   RolloutTarget target, const std::string& place, DualPolicy& policy, Rng& rng) {
  const std::size_t groups = problem.num_groups();
  const std::size_t num_devices = seen.num_devices();
  const std::span<const float> scores = policy.node_scores();
  CheckFinite(scores, place, "scores");
  Rollout rollout;
  rollout.select_likelihood.assign(groups, 0);
  rollout.select_entropy.assign(groups, 0);
  rollout.place_likelihood.Reset(groups, num_devices);
  rollout.place_entropy.Reset(groups, num_devices);
  rollout.episode.features.Reset(groups * num_devices, kAssignmentDeviceFeatures);
  PartialSchedule schedule(seen, problem);
  Decision decision(exploration, target);
  Selection selection;
  std::vector<float> logits;
  policy.BeginEpisode(num_devices);
  for (std::size_t t = 0; t < groups; ++t) {
    const std::uint32_t group = selection.Make(schedule, scores, rng, &decision, &rollout);
    schedule.Consider(group);
    const Matrix& features = schedule.features();
    std::copy_n(features.row(0), num_devices * features.stride(), rollout.episode.features.row(t * num_devices));
    const std::span<const float> own = policy.DeviceLogits(group, features);
    CheckFinite(own, place, "logits");
    logits.assign(own.begin(), own.end());
    AddStartPrior(problem, group, schedule.allowed(), logits);
    const std::size_t device = decision.Make(logits, schedule.allowed(), schedule.earliest(), rng,
                                             rollout.place_likelihood.values(t), rollout.place_entropy.values(t));
    rollout.like_teacher[1] += schedule.earliest()[device];
    schedule.Assign(group, device);
    policy.Assign(group, device);
    rollout.episode.groups.push_back(group);
    rollout.episode.devices.push_back(static_cast<std::uint32_t>(device));
  }
  rollout.placement = schedule.placement();
  rollout.mean_entropy = decision.mean_entropy();
  rollout.loss = decision.loss();
  return rollout;
}

void AddRolloutLoss(const Rollout& rollout, double likelihood_weight, double entropy_weight, DualPolicy& policy,
                    std::span<float> d_scores, std::span<float> gradients) {
  const std::size_t steps = rollout.episode.groups.size();
  if (steps == 0) return;
  const auto likelihood = static_cast<float>(likelihood_weight / static_cast<double>(steps));
  const auto entropy = static_cast<float>(entropy_weight / static_cast<double>(steps));
  for (std::size_t group = 0; group < d_scores.size(); ++group) {
    d_scores[group] += likelihood * rollout.select_likelihood[group] + entropy * rollout.select_entropy[group];
  }
  Matrix d_logits(steps, rollout.place_likelihood.width());
  for (std::size_t t = 0; t < steps; ++t) {
    AddScaled(rollout.place_likelihood.row(t), likelihood, d_logits.width(), d_logits.row(t));
    AddScaled(rollout.place_entropy.row(t), entropy, d_logits.width(), d_logits.row(t));
  }
  policy.AddDeviceLoss(rollout.episode, d_logits, gradients);
}

}  // namespace emplace::agents
