#include "agents/rl/post/post.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

#include "agents/candidates.h"
#include "agents/rl/post/placement_table.h"
#include "agents/rl/proposals.h"
#include "agents/rl/read_options.h"
#include "agents/saved_state.h"
#include "sim/base/check.h"

namespace emplace::agents {
namespace {

constexpr std::size_t kPublishedSamples = 2400;

// Whether the method takes cross-entropy steps.
bool Crosses(const PostOptions& options) {
  return options.method == PostMethod::kPost || options.method == PostMethod::kCrossEntropy;
}

// A sampled placement and its cost, minus its reward.
struct Sample {
  Choices choices;
  double cost = 0;
  bool fits = false;

  static void SavedFields(auto& state, auto& self) { state(self.cost, self.fits, self.choices); }
};

class Post : public SavedByFields<Post, Agent> {
 public:
  Post(const PostOptions& options, std::size_t evaluations)
      : options_(options), evaluations_(evaluations > 0 ? evaluations : kPublishedSamples), beta_(options.beta) {}

  Proposal Propose(const Environment& env, Mode mode, Rng& rng) override {
    if (mode == Mode::kExploit && best_.value()) return {.placements = {*best_.value()}};
    if (!table_) MakeTable(env);
    proposed_.clear();
    const std::size_t of_batch = options_.batch - count_ % options_.batch;
    const std::size_t of_window = options_.window - count_ % options_.window;
    const std::size_t wanted = Crosses(options_) ? std::min(of_batch, of_window) : of_batch;
    const ProposalSize size = NextProposal(evaluations_, count_, wanted, options_.final_evaluation);
    argmax_ = size.argmax;
    for (std::size_t i = 0; i < size.count; ++i) {
      proposed_.push_back(argmax_ ? table_->Likeliest() : table_->Sample(rng));
    }
    if (count_ == 0 && env.start()) proposed_[0] = table_->Likeliest();
    Proposal proposal;
    for (const Choices& choices : proposed_) proposal.placements.push_back(table_->ToPlacement(choices));
    return proposal;
  }

  std::vector<EpisodeRecord> Observe(const Environment& env, std::span<const Placement> batch,
                                     std::span<const Outcome> outcomes) override {
    EpisodeRecord record{.episode = episodes_++,
                         .evaluations = count_ + batch.size(),
                         .argmax = argmax_,
                         .entropy = table_->MeanEntropy()};
    ScoreBatch(env, batch, outcomes, &best_, &record);
    for (std::size_t i = 0; i < batch.size(); ++i) {
      ++count_;
      cost_sum_ += -outcomes[i].reward;
      window_.push_back({.choices = proposed_[i], .cost = -outcomes[i].reward, .fits = outcomes[i].result.fits_memory});
    }
    if (!argmax_) record.gradient_norm = Learn();
    return {record};
  }

  static void SavedFields(auto& state, auto& self) {
    state.Word("post");
    state(self.count_, self.episodes_, self.cost_sum_, self.beta_, self.best_, self.window_, self.table_);
  }

 private:
  // A start is the likeliest placement, and counts as the first sample.
  void MakeTable(const Environment& env) {
    std::vector<std::vector<DeviceId>> devices = SearchDevices(env.observation(), options_.use_cpus);
    if (env.start()) {
      for (std::size_t m = 0; m < devices.size(); ++m) {
        const DeviceId device = (*env.start())[MakeId<OpId>(m)];
        if (std::ranges::find(devices[m], device) == devices[m].end()) devices[m].push_back(device);
      }
    }
    table_.emplace(std::move(devices));
    if (env.start()) table_->Expect(*env.start());
  }

  // The last evaluation of the budget is the most likely placement instead of a sample. An update that the omitted
  // sample would complete is done without it, unless the current samples complete an update themselves. Returns the
  // gradient's norm in the last step; nothing without one, as where only a cross-entropy update is due.
  std::optional<double> Learn() {
    const PostUpdates complete = UpdatesDue(options_, count_);
    const bool lacks_last =
        options_.final_evaluation && count_ + 1 == evaluations_ && !complete.climbs && !complete.crosses;
    const std::size_t samples = count_ + (lacks_last ? 1 : 0);
    const PostUpdates due = lacks_last ? UpdatesDue(options_, samples) : complete;
    std::optional<double> norm;
    if (due.climbs) norm = Climb(std::min(options_.batch - (lacks_last ? 1 : 0), window_.size()));
    if (due.crosses) Cross(samples);
    // Later updates use no samples from before an update that changed the distributions.
    if (due.crosses || (due.climbs && !Crosses(options_))) window_.clear();
    return norm;
  }

  // Updates from the last `size` samples.
  std::optional<double> Climb(std::size_t size) {
    if (size == 0) return {};
    std::vector<Choices> samples;
    std::vector<double> costs;
    for (std::size_t i = window_.size() - size; i < window_.size(); ++i) {
      samples.push_back(window_[i].choices);
      costs.push_back(window_[i].cost);
    }
    const std::vector<double> advantages = Advantages(costs);
    if (options_.method == PostMethod::kPolicyGradient) {
      return table_->Climb(samples, advantages, options_.learning_rate, 1, 0).gradient_norm;
    }
    const auto [divergence, norm] = table_->Climb(samples, advantages, options_.learning_rate, options_.steps, beta_);
    if (divergence < options_.divergence / 1.5) beta_ /= 2;
    if (divergence > options_.divergence * 1.5) beta_ *= 2;
    beta_ = std::clamp(beta_, 1e-6, 1e6);
    return norm;
  }

  std::vector<double> Advantages(const std::vector<double>& costs) const {
    const double baseline = cost_sum_ / static_cast<double>(count_);
    double scale = 1;
    if (options_.advantage == PostAdvantage::kRelative) scale = std::abs(baseline);
    if (options_.advantage == PostAdvantage::kStandardized) {
      double squares = 0;
      for (const double cost : costs) squares += (cost - baseline) * (cost - baseline);
      scale = std::sqrt(squares / static_cast<double>(costs.size()));
    }
    std::vector<double> advantages;
    advantages.reserve(costs.size());
    for (const double cost : costs) advantages.push_back(scale > 0 ? (baseline - cost) / scale : 0);
    return advantages;
  }

  void Cross(std::size_t samples) {
    if (window_.empty()) return;
    std::vector<std::size_t> order(window_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const bool any_fits = std::any_of(window_.begin(), window_.end(), [](const Sample& sample) { return sample.fits; });
    if (any_fits) std::erase_if(order, [this](std::size_t i) { return !window_[i].fits; });
    std::stable_sort(order.begin(), order.end(),
                     [this](std::size_t a, std::size_t b) { return window_[a].cost < window_[b].cost; });
    const auto wanted = static_cast<std::size_t>(std::lround(options_.elite * static_cast<double>(options_.window)));
    order.resize(std::min(order.size(), std::max<std::size_t>(wanted, 1)));
    std::vector<Choices> elite;
    elite.reserve(order.size());
    for (const std::size_t i : order) elite.push_back(window_[i].choices);
    const double over = std::min(static_cast<double>(samples) / static_cast<double>(evaluations_), 1.0);
    table_->CrossEntropy(elite, options_.uniform * (1 - over));
  }

  PostOptions options_;
  std::size_t evaluations_;
  double beta_;
  std::size_t count_ = 0;
  std::size_t episodes_ = 0;
  double cost_sum_ = 0;
  std::vector<Sample> window_;  // since the last cross-entropy step, or since the last step if the method has none
  BestPlacement best_;
  std::optional<PlacementTable> table_;
  // Between Propose() and Observe():
  std::vector<Choices> proposed_;
  bool argmax_ = false;
};

}  // namespace

PostUpdates UpdatesDue(const PostOptions& options, std::size_t samples) {
  PostUpdates due;
  due.crosses = samples % options.window == 0 && Crosses(options);
  due.climbs = samples % options.batch == 0 && options.method != PostMethod::kCrossEntropy &&
               (!due.crosses || options.ppo_every_batch);
  return due;
}

std::unique_ptr<Agent> MakePostAgent(OptionReader& reader, const AgentContext& context) {
  PostOptions options;
  ReadWord<PostMethod>(reader, "method", &options.method,
                       {{"post", PostMethod::kPost},
                        {"ppo", PostMethod::kPpo},
                        {"cross_entropy", PostMethod::kCrossEntropy},
                        {"policy_gradient", PostMethod::kPolicyGradient}},
                       "PPO and cross-entropy, as in the paper, or one of them, or plain REINFORCE");
  ReadCount(reader, "batch", &options.batch, 1, 100000, "samples in a PPO update: K");
  ReadCount(reader, "window", &options.window, 1, 1000000, "samples in a cross-entropy update: N_s");
  reader.Read("learning_rate", &options.learning_rate, 0, 1000,
              "learning rate of a step of PPO, or of the policy gradient, whose best value is about 30");
  ReadCount(reader, "steps", &options.steps, 1, 1000, "steps of PPO in an update");
  reader.Read("elite", &options.elite, 0, 1, "share of the samples in the window that count as elite: rho");
  reader.Read("uniform", &options.uniform, 0, 1,
              "share of the uniform distribution in the mixture, decreasing to 0: epsilon");
  reader.Read("beta", &options.beta, 0, 1e6, "initial weight of the KL divergence");
  reader.Read("divergence", &options.divergence, 0, 1000,
              "target of the KL divergence, to which beta is adapted, in nats");
  reader.Read("ppo_every_batch", &options.ppo_every_batch, "run PPO also before a cross-entropy update");
  ReadWord<PostAdvantage>(reader, "advantage", &options.advantage,
                          {{"relative", PostAdvantage::kRelative},
                           {"standardized", PostAdvantage::kStandardized},
                           {"raw", PostAdvantage::kRaw}},
                          "(mean - cost), divided by the mean or by the standard deviation, or raw [ours; paper: raw]");
  reader.Read("final_evaluation", &options.final_evaluation,
              "the last evaluation is that of the likeliest placement [ours]");
  reader.Read("use_cpus", &options.use_cpus, "also use CPUs [ours; paper: true]");
  reader.Finish();
  return std::make_unique<Post>(options, context.evaluations);
}

}  // namespace emplace::agents
