#include "agents/rl/doppler/doppler.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <istream>
#include <map>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "agents/nn/flush_denormals.h"
#include "agents/rl/categorical.h"
#include "agents/rl/doppler/partial_schedule.h"
#include "agents/rl/doppler/rollout.h"
#include "agents/rl/policy_agent.h"
#include "agents/rl/policy_file.h"
#include "agents/rl/proposals.h"
#include "agents/rl/read_options.h"
#include "agents/saved_state.h"
#include "sim/base/check.h"

namespace emplace::agents {
namespace {

// State of one graph that the agent learns on.
struct DopplerGraph {
  // Saved:
  std::size_t evaluations = 0;
  std::size_t updates = 0;
  bool imitated = false;  // stage I is over
  bool applied = false;
  std::deque<double> rewards;  // the last ones
  BestPlacement best;
  static void SavedFields(auto& state, auto& self) {
    state(self.evaluations, self.updates, self.imitated, self.applied, self.rewards, self.best);
  }

  // Recomputed after loading:
  std::unique_ptr<AssignmentProblem> problem;
};

class Doppler : public SavedByFields<Doppler, PolicyAgent> {
 public:
  Doppler(const DopplerOptions& options, const AgentContext& context)
      : SavedByFields("doppler", context, options.fine_tune), options_(options) {}

  Proposal Propose(const Environment& env, Mode mode, Rng& rng) override {
    const FlushDenormals flush;
    const Observation& seen = env.observation();
    EnsureNetwork(seen, rng);
    DopplerGraph& graph = graphs_[env.index()];
    if (mode == Mode::kExploit && graph.best.value()) return {.placements = {*graph.best.value()}};
    if (seen.num_groups() == 0) return {.placements = {Placement(0)}};
    if (!graph.problem) {
      graph.problem = std::make_unique<AssignmentProblem>(seen, options_.use_cpus);
      graph.problem->start = env.start();
    }
    if (!graph.imitated) Imitate(seen, graph, rng);
    policy_->Embed(*graph.problem);
    rollouts_.clear();
    ProposalSize size =
        NextProposal(context().evaluations, graph.evaluations, options_.batch, options_.final_evaluation);
    // The search begins at its start, or with what was imitated.
    if (graph.evaluations == 0 || OnlyApplies() || mode == Mode::kExploit) size = {.count = 1, .argmax = true};
    argmax_ = size.argmax;
    Proposal proposal;
    for (std::size_t i = 0; i < size.count; ++i) {
      rollouts_.push_back(RunEpisode(seen, *graph.problem, argmax_ ? Exploration() : ExplorationOf(graph),
                                     RolloutTarget::kChosen, Place(graph), *policy_, rng));
      proposal.placements.push_back(rollouts_.back().placement);
    }
    if (graph.evaluations == 0 && env.start() && !OnlyApplies()) proposal.placements[0] = *env.start();
    return proposal;
  }

  std::vector<EpisodeRecord> Observe(const Environment& env, std::span<const Placement> batch,
                                     std::span<const Outcome> outcomes) override {
    const FlushDenormals flush;
    DopplerGraph& graph = graphs_.at(env.index());
    graph.evaluations += batch.size();
    EpisodeRecord record{.episode = graph.updates++, .evaluations = graph.evaluations, .argmax = argmax_, .entropy = 0};
    for (const Rollout& rollout : rollouts_) {
      record.entropy += rollout.mean_entropy / static_cast<double>(rollouts_.size());
    }
    ScoreBatch(env, batch, outcomes, &graph.best, &record);
    graph.applied = OnlyApplies();
    // A batch truncated by the budget is the last one.
    if (!argmax_ && batch.size() == rollouts_.size()) record.gradient_norm = Learn(graph, outcomes);
    return {record};
  }

  bool Finished() const override {
    if (graphs_.size() < context().num_graphs || graphs_.empty()) return false;
    return std::all_of(graphs_.begin(), graphs_.end(), [](const auto& entry) { return entry.second.applied; });
  }

  template <typename State>
  static void SavedFields(State& state, auto& self) {
    if (!NetworkFields(state, self)) return;
    state(self.policy_->parameters(), self.adam_, self.graphs_);
    if constexpr (State::kLoads) self.policy_->Pack();
  }

 private:
  static std::string Place(const DopplerGraph& graph) { return fmt::format("doppler, update {}", graph.updates); }

  // Share of the budget that is spent.
  double Progress(const DopplerGraph& graph) const {
    if (context().evaluations == 0) return 0;
    return std::min(1.0, static_cast<double>(graph.evaluations) / static_cast<double>(context().evaluations));
  }
  Exploration ExplorationOf(const DopplerGraph& graph) const {
    if (options_.sampling == DopplerSampling::kSoftmax) return {.draw = true};
    return {.draw = false, .epsilon = options_.epsilon * (1 - Progress(graph))};
  }

  std::string ShapeText() const {
    return fmt::format("width={},rounds={}", options_.network.width, options_.network.rounds);
  }
  void SaveShape(std::ostream& out) const override { out << ShapeText(); }
  void LoadShape(std::istream& in, std::size_t num_devices) const override {
    ExpectPolicyShape(in, ShapeText());
    if (num_devices == 0 || num_devices > kMostPolicyDevices) {
      throw InputError("", fmt::format("is broken: a policy of {} devices", num_devices));
    }
  }
  ParameterSet& weights() override { return policy_->parameters(); }
  const ParameterSet& weights() const override { return policy_->parameters(); }
  void WeightsLoaded() override { policy_->Pack(); }
  void MakeNetwork(std::size_t /*num_devices*/) override { policy_ = std::make_unique<DualPolicy>(options_.network); }
  void DrawWeights(Rng& rng) override {
    policy_->parameters().InitializeGlorot(rng);
    policy_->Pack();
  }

  // Stage I. A start replaces the teacher.
  void Imitate(const Observation& seen, DopplerGraph& graph, Rng& rng) {
    graph.imitated = true;
    if (policy_loaded() || graph.problem->start) return;
    Adam adam;
    for (std::size_t i = 0; i < options_.imitation_episodes; ++i) {
      policy_->Embed(*graph.problem);
      const double left = 1 - static_cast<double>(i) / static_cast<double>(options_.imitation_episodes);
      rollouts_.assign(1, RunEpisode(seen, *graph.problem, {.draw = false, .epsilon = left}, RolloutTarget::kTeacher,
                                     fmt::format("doppler, imitation {}", i), *policy_, rng));
      Descend(graph, {1}, 0, options_.imitation_rate * left, &adam);
    }
  }

  // Stage II.
  double Learn(DopplerGraph& graph, std::span<const Outcome> outcomes) {
    for (const Outcome& outcome : outcomes) graph.rewards.push_back(outcome.reward);
    while (graph.rewards.size() > std::max(options_.baseline_episodes, outcomes.size())) graph.rewards.pop_front();
    double mean = 0;
    for (const double reward : graph.rewards) mean += reward / static_cast<double>(graph.rewards.size());
    double squares = 0;
    for (const double reward : graph.rewards) squares += (reward - mean) * (reward - mean);
    const double deviation = std::sqrt(squares / static_cast<double>(graph.rewards.size()));
    constexpr double kLargest = 3;
    std::vector<double> advantages;
    for (const Outcome& outcome : outcomes) {
      const bool differ = deviation > 1e-12 * std::abs(mean);
      advantages.push_back(differ ? std::clamp((outcome.reward - mean) / deviation, -kLargest, kLargest) : 0);
    }
    return Descend(graph, advantages, options_.entropy_weight, options_.learning_rate * (1 - Progress(graph)), &adam_);
  }

  // One step of Adam on the loss of all rollouts. Returns the norm of the gradient before clipping.
  double Descend(const DopplerGraph& graph, const std::vector<double>& weights, double entropy_weight, double rate,
                 Adam* adam) {
    gradients_.assign(policy_->parameters().size(), 0);
    std::vector<float> d_scores(graph.problem->num_groups());
    const auto count = static_cast<double>(rollouts_.size());
    for (std::size_t i = 0; i < rollouts_.size(); ++i) {
      AddRolloutLoss(rollouts_[i], weights[i] / count, entropy_weight / count, *policy_, d_scores, gradients_);
    }
    policy_->Backward(d_scores, gradients_);
    CheckFinite(gradients_, Place(graph), "gradient");
    const double norm = ClipGlobalNorm(options_.clip, gradients_);
    adam->Step(rate, gradients_, policy_->parameters().values());
    policy_->Pack();
    return norm;
  }

  DopplerOptions options_;
  std::unique_ptr<DualPolicy> policy_;
  Adam adam_;
  std::map<std::size_t, DopplerGraph> graphs_;  // keyed by the environment's index
  // Between Propose() and Observe():
  std::vector<Rollout> rollouts_;
  bool argmax_ = false;
  std::vector<float> gradients_;
};

}  // namespace

std::unique_ptr<Agent> MakeDopplerAgent(OptionReader& reader, const AgentContext& context) {
  DopplerOptions options;
  ReadCount(reader, "imitation_episodes", &options.imitation_episodes, 0, 1'000'000,
            "episodes that imitate the critical-path policy, without evaluations [ours; code: 2000]");
  reader.Read("imitation_rate", &options.imitation_rate, 0, 10,
              "learning rate of Adam in these episodes, decreasing to 0");
  ReadCount(reader, "batch", &options.batch, 1, 100'000, "placements per update [ours; code: 1]");
  reader.Read("learning_rate", &options.learning_rate, 0, 10,
              "learning rate of Adam afterwards, decreasing to 0 [ours; code: 0.0001]");
  ReadWord<DopplerSampling>(
      reader, "sampling", &options.sampling,
      {{"softmax", DopplerSampling::kSoftmax}, {"epsilon_greedy", DopplerSampling::kEpsilonGreedy}},
      "draw decisions from the policies, or take the likeliest except with probability epsilon [ours; code: "
      "epsilon_greedy]");
  reader.Read("epsilon", &options.epsilon, 0, 1, "epsilon_greedy: share of random decisions, decreasing to 0");
  reader.Read("entropy", &options.entropy_weight, 0, 1000, "weight of the policies' entropy");
  ReadCount(reader, "baseline_episodes", &options.baseline_episodes, 1, 1'000'000,
            "last rewards whose mean and deviation normalise an advantage [ours; code: all]");
  ReadCount(reader, "width", &options.network.width, 1, 4096,
            "width of a node's vector and of hidden layers [ours; code: 128]");
  ReadCount(reader, "rounds", &options.network.rounds, 0, 64, "rounds of messages between neighbours [ours; code: 6]");
  reader.Read("clip", &options.clip, 1e-9, 1e9, "largest norm of the gradient of an update [ours]");
  reader.Read("final_evaluation", &options.final_evaluation,
              "the last evaluation is that of the likeliest decisions [ours]");
  reader.Read("use_cpus", &options.use_cpus, "also use CPUs");
  reader.Read("fine_tune", &options.fine_tune, "continue to train a loaded policy");
  reader.Finish();
  return std::make_unique<Doppler>(options, context);
}

}  // namespace emplace::agents
