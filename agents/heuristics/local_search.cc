#include "agents/heuristics/local_search.h"

#include "agents/candidates.h"
#include "agents/saved_state.h"
#include "agents/score.h"

namespace emplace::agents {
namespace {

class LocalSearch : public SavedByFields<LocalSearch, Agent> {
 public:
  explicit LocalSearch(bool use_cpus) : use_cpus_(use_cpus) {}

  Proposal Propose(const Environment& env, Mode mode, Rng&) override {
    const Observation& seen = env.observation();
    if (!best_.value()) return {.placements = {StartOf(env)}};
    const Placement& current = *best_.value();
    if (mode == Mode::kExploit || Finished()) return {.placements = {current}};
    const auto devices = SearchDevices(seen, use_cpus_);
    std::vector<Placement> alternatives;
    while (alternatives.empty() && unchanged_ < seen.num_groups()) {
      const OpId group = MakeId<OpId>(next_);
      for (const DeviceId device : devices[next_]) {
        if (device == current[group]) continue;
        alternatives.push_back(current);
        alternatives.back()[group] = device;
      }
      if (alternatives.empty()) Advance(seen.num_groups(), false);
    }
    finished_ = unchanged_ >= seen.num_groups();
    if (alternatives.empty()) return {.placements = {current}};
    return {.placements = std::move(alternatives)};
  }

  std::vector<EpisodeRecord> Observe(const Environment& env, std::span<const Placement> batch,
                                     std::span<const Outcome> outcomes) override {
    const Observation& seen = env.observation();
    const bool is_start = !best_.value();
    bool changed = false;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      changed = best_.Keep(batch[i], ScoreOf(outcomes[i], seen.cluster)) || changed;
    }
    if (!is_start && !finished_) Advance(seen.num_groups(), changed);
    finished_ = unchanged_ >= seen.num_groups();
    return {};
  }

  bool Finished() const override { return finished_; }

  static void SavedFields(auto& state, auto& self) {
    auto [best, score] = BestPlacement::Parts(self.best_);
    bool started = best.has_value();
    state.Word("local_search");
    state(started, self.finished_, self.next_, self.unchanged_);
    state.OrEmpty(best, started);
    state(score);
  }

 private:
  // Advances to the next group. After a move, a group is on its best device as long as the others stay. The sweep ends
  // when no other group has moved since.
  void Advance(std::size_t num_groups, bool changed) {
    unchanged_ = changed ? 1 : unchanged_ + 1;
    next_ = (next_ + 1) % num_groups;
  }

  bool use_cpus_;
  bool finished_ = false;
  std::size_t next_ = 0;       // the group that tries other devices next
  std::size_t unchanged_ = 0;  // consecutive groups that stayed
  BestPlacement best_;         // the current placement
};

}  // namespace

std::unique_ptr<Agent> MakeLocalSearchAgent(OptionReader& reader, const AgentContext&) {
  bool use_cpus = true;
  reader.Read("use_cpus", &use_cpus, "also use CPUs");
  reader.Finish();
  return std::make_unique<LocalSearch>(use_cpus);
}

}  // namespace emplace::agents
