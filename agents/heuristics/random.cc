#include "agents/heuristics/random.h"

#include "agents/heuristics/score.h"
#include "agents/saved_text.h"

namespace emplace {
namespace {

constexpr std::size_t kPlacementsAtOnce = 16;

class RandomAgent : public Agent {
 public:
  explicit RandomAgent(bool use_cpus) : use_cpus_(use_cpus) {}

  Proposal Propose(const Environment& env, Mode mode, Rng& rng) override {
    const Observation& seen = env.observation();
    if (mode == Mode::kExploit && has_best_) return {.placements = {best_}};
    const auto devices = SearchDevices(seen, use_cpus_);
    std::vector<Placement> batch(kPlacementsAtOnce, Placement(seen.num_groups()));
    for (Placement& placement : batch) {
      for (std::size_t group = 0; group < seen.num_groups(); ++group) {
        placement[MakeId<OpId>(group)] = devices[group][rng.Below(devices[group].size())];
      }
    }
    return {.placements = std::move(batch)};
  }

  std::vector<EpisodeRecord> Observe(const Environment& env, std::span<const Placement> batch,
                                     std::span<const Outcome> outcomes) override {
    for (std::size_t i = 0; i < batch.size(); ++i) {
      const Score score = ScoreOf(outcomes[i], env.observation().cluster);
      if (has_best_ && !score.BetterThan(score_)) continue;
      has_best_ = true;
      best_ = batch[i];
      score_ = score;
    }
    return {};
  }

  void Save(std::ostream& out) const override {
    out << "random " << (has_best_ ? 1 : 0) << ' ';
    SavePlacement(out, best_);
    SaveScore(out, score_);
  }
  void Load(std::istream& in) override {
    ExpectWord(in, "random");
    has_best_ = LoadNumber(in) != 0;
    best_ = LoadPlacement(in);
    score_ = LoadScore(in);
  }

 private:
  bool use_cpus_;
  bool has_best_ = false;
  Placement best_;
  Score score_;
};

}  // namespace

std::unique_ptr<Agent> MakeRandomAgent(OptionReader& reader, const AgentContext&) {
  bool use_cpus = false;
  reader.Read("use_cpus", &use_cpus, "draw from CPUs too");
  reader.Finish();
  return std::make_unique<RandomAgent>(use_cpus);
}

}  // namespace emplace
