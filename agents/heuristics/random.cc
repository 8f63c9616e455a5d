#include "agents/heuristics/random.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "agents/candidates.h"
#include "agents/saved_state.h"
#include "agents/score.h"

namespace emplace::agents {
namespace {

constexpr std::size_t kPlacementsAtOnce = 16;

class RandomAgent : public SavedByFields<RandomAgent, Agent> {
 public:
  explicit RandomAgent(bool use_cpus) : use_cpus_(use_cpus) {}

  Proposal Propose(const Environment& env, Mode mode, Rng& rng) override {
    const Observation& seen = env.observation();
    if (mode == Mode::kExploit && best_.value()) return {.placements = {*best_.value()}};
    const auto devices = SearchDevices(seen, use_cpus_);
    std::vector<Placement> batch(kPlacementsAtOnce, Placement(seen.num_groups()));
    for (Placement& placement : batch) {
      for (std::size_t group = 0; group < seen.num_groups(); ++group) {
        placement[MakeId<OpId>(group)] = devices[group][rng.Below(devices[group].size())];
      }
    }
    if (!best_.value() && env.start()) batch[0] = *env.start();
    return {.placements = std::move(batch)};
  }

  std::vector<EpisodeRecord> Observe(const Environment& env, std::span<const Placement> batch,
                                     std::span<const Outcome> outcomes) override {
    for (std::size_t i = 0; i < batch.size(); ++i) {
      best_.Keep(batch[i], ScoreOf(outcomes[i], env.observation().cluster));
    }
    return {};
  }

  static void SavedFields(auto& state, auto& self) {
    state.Word("random");
    state(self.best_);
  }

 private:
  bool use_cpus_;
  BestPlacement best_;
};

}  // namespace

std::unique_ptr<Agent> MakeRandomAgent(OptionReader& reader, const AgentContext&) {
  bool use_cpus = false;
  reader.Read("use_cpus", &use_cpus, "also use CPUs");
  reader.Finish();
  return std::make_unique<RandomAgent>(use_cpus);
}

namespace {

constexpr std::size_t kStepsAtOnce = 64;

class RandomWalk : public SavedByFields<RandomWalk, Agent> {
 public:
  RandomWalk(std::size_t episodes, bool use_cpus) : episodes_(episodes), use_cpus_(use_cpus) {}

  Proposal Propose(const Environment& env, Mode mode, Rng& rng) override {
    const Observation& seen = env.observation();
    if (!started_) {
      started_ = true;
      current_ = env.start() ? *env.start() : OnFirstAccelerator(seen);
      return {.placements = {current_}};
    }
    if (mode == Mode::kExploit || Finished() || seen.num_groups() == 0) {
      episode_ = seen.num_groups() == 0 ? episodes_ : episode_;
      return {.placements = {*best_.value()}};
    }
    if (next_ == 0) {
      current_ = *best_.value();
      pass_best_ = std::numeric_limits<double>::infinity();
    }
    const auto devices = SearchDevices(seen, use_cpus_);
    std::vector<Placement> steps;
    for (; steps.size() < kStepsAtOnce && next_ < seen.num_groups(); ++next_) {
      current_[MakeId<OpId>(next_)] = devices[next_][rng.Below(devices[next_].size())];
      steps.push_back(current_);
    }
    if (next_ == seen.num_groups()) {
      next_ = 0;
      ++episode_;
    }
    return {.placements = std::move(steps)};
  }

  std::vector<EpisodeRecord> Observe(const Environment& env, std::span<const Placement> batch,
                                     std::span<const Outcome> outcomes) override {
    for (std::size_t i = 0; i < batch.size(); ++i) {
      pass_best_ = std::min(pass_best_, outcomes[i].result.step_time_micros);
      best_.Keep(batch[i], ScoreOf(outcomes[i], env.observation().cluster));
    }
    // A pass truncated by the budget does not end an episode.
    if (next_ != 0 || episode_ == 0 || batch.empty() || batch.back() != current_) return {};
    return {{.episode = episode_ - 1,
             .evaluations = 1 + episode_ * env.observation().num_groups(),
             .argmax = false,
             .final_micros = outcomes.back().result.step_time_micros,
             .best_micros = pass_best_,
             .entropy = 1}};
  }

  bool Finished() const override { return started_ && episode_ >= episodes_; }

  static void SavedFields(auto& state, auto& self) {
    auto [best, score] = BestPlacement::Parts(self.best_);
    bool scored = best.has_value();
    state.Word("random_walk");
    state(self.started_, scored, self.episode_, self.next_, self.pass_best_, self.current_);
    state.OrEmpty(best, scored);
    state(score);
  }

 private:
  std::size_t episodes_;
  bool use_cpus_;
  bool started_ = false;
  std::size_t episode_ = 0;
  std::size_t next_ = 0;  // the group to move next
  double pass_best_ = 0;  // step time
  Placement current_;
  BestPlacement best_;
};

}  // namespace

std::unique_ptr<Agent> MakeRandomWalkAgent(OptionReader& reader, const AgentContext&) {
  std::int64_t episodes = 16;
  bool use_cpus = false;
  reader.Read("episodes", &episodes, 1, 1'000'000, "passes over all groups");
  reader.Read("use_cpus", &use_cpus, "also use CPUs");
  reader.Finish();
  return std::make_unique<RandomWalk>(static_cast<std::size_t>(episodes), use_cpus);
}

}  // namespace emplace::agents
