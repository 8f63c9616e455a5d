#ifndef EMPLACE_AGENTS_RL_PLANNER_PLANNER_POLICY_H_
#define EMPLACE_AGENTS_RL_PLANNER_PLANNER_POLICY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "agents/nn/grouper.h"
#include "agents/nn/sequence_network.h"
#include "agents/rl/planner/options.h"
#include "agents/rl/planner/planner_problem.h"
#include "sim/base/rng.h"
#include "sim/placement.h"

namespace emplace::agents {

// A sampled grouping and the placements sampled for it.
struct GroupingDraw {
  std::size_t count = 0;               // number of placements
  std::vector<std::uint32_t> groups;   // [num_nodes]
  Matrix group_noise;                  // [num_nodes, num_groups]: noise on the Grouper's logits; or no rows
  Matrix vectors;                      // [num_groups, GroupVectorWidth()] in the Placer's order; no rows without a
                                       // Placer
  std::vector<std::uint32_t> devices;  // [num_groups * count], in the Placer's order
  std::vector<Matrix> noise;           // [num_groups]: [count, num_devices] on the Placer's logits; or empty
  std::vector<std::uint8_t> counts;    // [num_groups] in the Placer's order: whether the group's device is trained on
  // Intermediate results of sampling, which are reused while the policy's weights have this version:
  std::size_t version = 0;
  std::unique_ptr<SequenceCourse> course;  // course of the Placer, or null
  Matrix group_odds;                       // [num_nodes, num_groups]: the Grouper's probabilities; or no rows

  // Noise on a placement's logits at a position; null if there is none.
  const float* NoiseAt(std::size_t position, std::size_t placement) const {
    return noise.empty() ? nullptr : noise[position].row(placement);
  }
};

// How a batch of placements is sampled.
struct DrawOptions {
  std::size_t count = 1;  // total number of placements
  bool argmax = false;    // the most likely grouping and placement only
  bool noisy = false;
};

// A sampled batch for training. Placements are numbered consecutively over the groupings.
struct PlannerDraw {
  std::vector<GroupingDraw> groupings;
  std::vector<double> log_odds;  // [placements]: log p(grouping) + log p(placement | grouping) at sampling time
  double entropy = 0;            // entropy of the Placer, or of the Grouper without a Placer, relative to the maximum
  std::optional<double> grouper_entropy;  // entropy of the Grouper, if there is a Placer too
  std::size_t tied = 0;                   // choices among several that are the most likely, taken at random
};

// Weights of the terms of the policy's loss besides the log-probabilities.
struct LossWeights {
  double entropy = 0;  // weight of minus the mean entropy of the Placer
  double excess = 0;   // weight of the excess of the Placer's raw logits: ExcessOfLogits()
};

// The policy of the agents hierarchical and coloc_rl: an optional Grouper assigns ops to groups, an optional Placer
// groups to devices. Probabilities include the noise on the logits.
class PlannerPolicy {
 public:
  PlannerPolicy(const PlannerOptions& options, std::size_t num_nodes, std::size_t num_devices,
                const std::string& torch_device);

  // Initialises the weights. The Grouper's come first in gradients of size num_parameters().
  void DrawWeights(Rng& rng);
  template <typename State>
  static void SavedFields(State& state, auto& self) {
    if (self.grouper_) state(self.grouper_->parameters());
    if (self.placer_) state(self.placer_parameters_);
    if constexpr (State::kLoads) self.Pack();
  }
  std::size_t num_parameters() const;
  std::span<float> grouper_weights();  // empty without a Grouper
  std::span<float> placer_weights();
  // Must be called after weights have changed.
  void Pack();

  // Sets the problem to place; a fixed grouping is sampled with `seed`.
  bool sees() const { return problem_.has_value(); }
  void See(const Environment& env, std::uint64_t seed) {
    problem_ = MakePlannerProblem(env, options_, num_groups_, seed);
  }

  // Throws InputError that begins with `place` if logits are not finite.
  PlannerDraw Draw(const DrawOptions& how, const std::string& place, Rng& rng);
  std::vector<Placement> Placements(const PlannerDraw& draw, const Observation& seen) const;
  // Recomputes `log_odds` with the current weights, by the passes that AddGradient() differentiates.
  std::vector<double> LogOdds(const PlannerDraw& draw);
  // Adds the gradient of -sum over placements of weight * log odds - entropy * mean entropy of the Placer + excess *
  // mean excess of its logits. The entropy's logarithm has LossGradient's floor (agents/rl/placeto/returns.h).
  void AddGradient(const PlannerDraw& draw, std::span<const double> weights, const LossWeights& loss,
                   std::span<float> gradients);

  std::size_t num_nodes() const { return num_nodes_; }
  std::size_t num_devices() const { return num_devices_; }

 private:
  // The probabilities of a node's groups from its logits and noise.
  void GroupOdds(const Matrix& logits, const Matrix& noise, std::size_t node, std::span<double> odds);
  // The same for a group's devices; `noise` may be null.
  void DeviceOdds(const float* logits, const float* noise, std::size_t position, std::span<double> odds);
  // Returns the log-probability of the grouping, and adds the sum of the nodes' relative entropies.
  double DrawGroups(const Matrix& logits, const DrawOptions& how, bool keep, Rng& rng, GroupingDraw* grouping,
                    double* entropy, std::size_t* tied);
  void DrawDevices(const DrawOptions& how, bool keep, const std::string& place, Rng& rng, GroupingDraw* grouping,
                   std::span<double> log_odds, PlannerDraw* draw);
  void AddGrouperGradient(const PlannerDraw& draw, std::span<const double> weights, std::span<float> gradients);
  void AddPlacerGradient(const GroupingDraw& grouping, std::span<const double> weights, const LossWeights& loss,
                         std::span<float> gradients);

  PlannerOptions options_;
  std::size_t num_nodes_ = 0;
  std::size_t num_devices_ = 0;
  std::size_t num_groups_ = 0;
  std::unique_ptr<Grouper> grouper_;
  SequenceOptions placer_options_;
  ParameterSet placer_parameters_;
  std::unique_ptr<SequenceNetwork> placer_;
  std::optional<PlannerProblem> problem_;
  std::size_t version_ = 0;  // version of the weights: the number of calls of Pack()
  std::vector<float> row_;
  std::vector<std::uint8_t> all_groups_;
};

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_RL_PLANNER_PLANNER_POLICY_H_
