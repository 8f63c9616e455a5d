#include "agents/rl/planner/planner.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "agents/nn/flush_denormals.h"
#include "agents/rl/categorical.h"
#include "agents/rl/planner/options.h"
#include "agents/rl/planner/planner_policy.h"
#include "agents/rl/proposals.h"
#include "agents/saved_state.h"
#include "sim/base/check.h"

namespace emplace::agents {
namespace {

constexpr double kFailure = -10;
// Limits for numbers read from a checkpoint, as they determine how much memory is allocated.
constexpr std::size_t kMostSavedDevices = 10'000;
constexpr std::size_t kMostNodes = 100'000'000;

class Planner : public SavedByFields<Planner, Agent> {
 public:
  Planner(std::string name, const PlannerOptions& options, const AgentContext& context)
      : name_(std::move(name)), options_(options), context_(context) {}

  Proposal Propose(const Environment& env, Mode mode, Rng& rng) override {
    const FlushDenormals flush;
    const Observation& seen = env.observation();
    if (seen.num_groups() == 0) return {.placements = {Placement(0)}};
    if (mode == Mode::kExploit && best_.value()) return {.placements = {*best_.value()}};
    const bool is_new = !policy_;
    if (is_new) {
      grouping_seed_ = rng.Next();
      policy_.emplace(options_, seen.num_groups(), seen.num_devices(), context_.torch_device);
    }
    if (!policy_->sees()) policy_->See(env, grouping_seed_);
    if (is_new) policy_->DrawWeights(rng);
    starting_ = evaluations_ == 0 && env.start();
    if (starting_) return {.placements = {*env.start()}};
    const ProposalSize size = NextProposal(context_.evaluations, evaluations_, PerUpdate(), options_.final_evaluation);
    argmax_ = size.argmax;
    // Noise would lead away from a start.
    const bool noisy = options_.noise > 0 && updates_ < options_.noise_updates && !argmax_ && !env.start();
    draw_ = policy_->Draw({.count = size.count, .argmax = argmax_, .noisy = noisy}, Place(), rng);
    return {.placements = policy_->Placements(draw_, seen)};
  }

  std::vector<EpisodeRecord> Observe(const Environment& env, std::span<const Placement> batch,
                                     std::span<const Outcome> outcomes) override {
    const FlushDenormals flush;
    if (env.observation().num_groups() == 0) return {};
    evaluations_ += batch.size();
    if (starting_) {
      best_.Keep(batch[0], ScoreOf(outcomes[0], env.observation().cluster));
      return {};
    }
    EpisodeRecord record{.episode = episodes_++,
                         .evaluations = evaluations_,
                         .argmax = argmax_,
                         .entropy = draw_.entropy,
                         .grouper_entropy = draw_.grouper_entropy};
    if (argmax_) record.tied = draw_.tied;
    ScoreBatch(env, batch, outcomes, &best_, &record);
    // A batch truncated by the budget is the last one.
    if (!argmax_ && batch.size() == draw_.log_odds.size()) record.gradient_norm = Learn(outcomes);
    return {record};
  }

  template <typename State>
  static void SavedFields(State& state, auto& self) {
    bool has_policy = self.policy_.has_value();
    std::size_t devices = has_policy ? self.policy_->num_devices() : 0;
    std::size_t nodes = has_policy ? self.policy_->num_nodes() : 0;
    state.Word(self.name_);
    state(has_policy, devices, nodes, self.grouping_seed_, self.evaluations_, self.episodes_, self.updates_,
          self.baseline_, self.best_);
    state.Check(devices <= kMostSavedDevices && nodes <= kMostNodes, "numbers of nodes and devices");
    if (!has_policy) return;
    if constexpr (State::kLoads) self.policy_.emplace(self.options_, nodes, devices, self.context_.torch_device);
    state(*self.policy_, self.grouper_adam_, self.placer_adam_);
  }

 private:
  std::string Place() const { return fmt::format("{}, update {}", name_, updates_); }

  // Placements of an update.
  std::size_t PerUpdate() const { return options_.groupings * options_.samples; }

  // Interpolates between two values over the updates that the budget allows.
  double Between(double first, double last) const {
    const std::size_t per_update = options_.step_per_reward ? 1 : PerUpdate();
    const double all = std::max(static_cast<double>(context_.evaluations) / static_cast<double>(per_update), 1.0);
    return first + std::min(static_cast<double>(updates_) / all, 1.0) * (last - first);
  }

  // Returns the norm of the last update's gradient; none without an update.
  std::optional<double> Learn(std::span<const Outcome> outcomes) {
    const std::size_t count = options_.step_per_reward ? 1 : outcomes.size();
    std::optional<double> norm;
    for (std::size_t first = 0; first < outcomes.size(); first += count) {
      if (const auto of_step = LearnFrom(outcomes, first, count)) norm = of_step;
    }
    return norm;
  }

  // One update, from `count` outcomes.
  std::optional<double> LearnFrom(std::span<const Outcome> outcomes, std::size_t first, std::size_t count) {
    const bool all_count = updates_ < options_.drop_invalid_after;
    ++updates_;
    const auto taken = outcomes.subspan(first, count);
    const auto counts = [all_count](const Outcome& outcome) { return all_count || outcome.result.fits_memory; };
    const auto valid = static_cast<double>(std::count_if(taken.begin(), taken.end(), counts));
    if (valid == 0) return std::nullopt;
    double sum = 0;
    for (const Outcome& outcome : taken) sum += counts(outcome) ? outcome.reward : 0;
    const double mean = sum / valid;
    if (!baseline_) baseline_ = options_.baseline_at_failure ? kFailure : mean;
    std::vector<double> weights(outcomes.size());
    for (std::size_t i = first; i < first + count; ++i) {
      if (counts(outcomes[i])) weights[i] = (outcomes[i].reward - *baseline_) / valid;
    }
    const double norm = Step(weights);
    baseline_ = options_.baseline_decay * *baseline_ + (1 - options_.baseline_decay) * mean;
    return norm;
  }

  // Returns the norm of the gradient before clipping.
  double Step(const std::vector<double>& weights) {
    gradients_.assign(policy_->num_parameters(), 0.0F);
    policy_->AddGradient(
        draw_, weights,
        {.entropy = Between(options_.entropy_weight, options_.final_entropy_weight), .excess = options_.excess_weight},
        gradients_);
    CheckFinite(gradients_, Place(), "gradient");
    const double norm = ClipGlobalNorm(options_.clip, gradients_);
    const double rate = Between(options_.learning_rate, options_.final_learning_rate);
    const std::size_t of_grouper = policy_->grouper_weights().size();
    const std::span<float> all(gradients_);
    if (of_grouper > 0) grouper_adam_.Step(rate, all.first(of_grouper), policy_->grouper_weights());
    if (of_grouper < all.size()) placer_adam_.Step(rate, all.subspan(of_grouper), policy_->placer_weights());
    policy_->Pack();
    return norm;
  }

  std::string name_;
  PlannerOptions options_;
  AgentContext context_;
  // Saved:
  std::uint64_t grouping_seed_ = 0;
  std::size_t evaluations_ = 0;
  std::size_t episodes_ = 0;
  std::size_t updates_ = 0;
  std::optional<double> baseline_;
  BestPlacement best_;
  std::optional<PlannerPolicy> policy_;  // after the first problem
  Adam grouper_adam_;
  Adam placer_adam_;
  // Between Propose() and Observe():
  bool argmax_ = false;
  bool starting_ = false;  // the start is being evaluated
  PlannerDraw draw_;
  std::vector<float> gradients_;
};

}  // namespace

std::unique_ptr<Agent> MakeHierarchicalAgent(OptionReader& reader, const AgentContext& context) {
  return std::make_unique<Planner>("hierarchical", ReadHierarchicalOptions(reader), context);
}

std::unique_ptr<Agent> MakeColocRlAgent(OptionReader& reader, const AgentContext& context) {
  return std::make_unique<Planner>("coloc_rl", ReadColocRlOptions(reader), context);
}

}  // namespace emplace::agents
