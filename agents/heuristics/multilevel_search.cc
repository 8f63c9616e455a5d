#include "agents/heuristics/multilevel_search.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "agents/candidates.h"
#include "agents/heuristics/dp_contiguous.h"
#include "agents/heuristics/search_levels.h"
#include "agents/heuristics/search_moves.h"
#include "agents/saved_state.h"
#include "agents/score.h"
#include "sim/base/check.h"
#include "sim/evaluator.h"

namespace emplace::agents {
namespace {

constexpr double kRaceShare = 0.3;
constexpr std::size_t kLeastRound = 16;
constexpr double kStayShare = 0.5;
constexpr double kFirstThreshold = 3e-3;
constexpr double kLastThreshold = 1e-4;
constexpr std::size_t kReturns = 8;
constexpr std::size_t kLeastPatience = 50;
constexpr std::size_t kPatiencePerUnit = 4;
constexpr double kOneMore = 0.2;
constexpr double kOneMoreOfKick = 0.75;

// On the finest level, in the order in which a small budget tries them.
constexpr std::string_view kStarts[] = {"single_device", "heft",   "m_etf",  "expert", "metis",
                                        "m_sct",         "scotch", "blocks", "m_topo"};
constexpr std::string_view kCoarseStarts[] = {"heft", "m_etf", "metis", "m_sct", "scotch"};

// One-shot agents look at the observation only.
class NoEvaluator : public Evaluator {
 public:
  StepResult Run(const Placement&) const override {
    EMPLACE_CHECK(false);
    return {};
  }
};

struct Walker {
  std::size_t level = 0;
  std::size_t since_best = 0;  // evaluations
  bool kicked = false;         // the next changes are larger, and the best of them is accepted
  SearchPosition now;
  SearchPosition best;

  static void SavedFields(auto& state, auto& self) {
    state(self.level, self.since_best, self.kicked, self.now, self.best);
  }
};

class MultilevelSearch : public SavedByFields<MultilevelSearch, Agent> {
 public:
  explicit MultilevelSearch(std::size_t budget) : budget_(std::max<std::size_t>(budget, 1)) {}

  EvaluationNeeds Needs() const override { return {.start_times = true, .peak_memory = false}; }

  Proposal Propose(const Environment& env, Mode mode, Rng& rng) override {
    if (mode == Mode::kExploit && best_.value()) return {.placements = {*best_.value()}};
    if (levels_.empty()) {
      levels_ = MakeSearchLevels(env);
      all_bytes_ = AllBytes(env.observation());
    }
    if (walkers_.empty()) return {.placements = Starts(env, rng)};
    SearchMoves moves(env, levels_, rng);
    Proposal proposal;
    if (together_) proposal.placements.push_back(*together_);
    const Walker& walker = Turn();
    while (proposal.placements.size() < kMultilevelBatch) {
      proposal.placements.push_back(moves.Changed(walker.now, walker.level, walker.kicked ? kOneMoreOfKick : kOneMore));
    }
    return proposal;
  }

  std::vector<EpisodeRecord> Observe(const Environment& env, std::span<const Placement> batch,
                                     std::span<const Outcome> outcomes) override {
    std::vector<Score> scores;
    for (const Outcome& outcome : outcomes) scores.push_back(ScoreOf(outcome, env.observation().cluster));
    for (std::size_t i = 0; i < batch.size(); ++i) best_.Keep(batch[i], scores[i]);
    spent_ += batch.size();
    if (walkers_.empty()) {
      BeginWalkers(env, batch, outcomes, scores);
      nothing_to_move_ = !AnyChoice(env.observation());
      return {};
    }
    const std::size_t chosen = BestOf(scores);
    Walker& walker = Turn();
    together_ = Together(walker.now, batch, scores, chosen);
    walker.since_best += batch.size();
    const bool kicked = std::exchange(walker.kicked, false);
    if ((kicked && outcomes[chosen].result.runs) || Accepts(walker.now.score, scores[chosen])) {
      Take(env, batch[chosen], scores[chosen], outcomes[chosen], &walker);
    }
    const std::size_t neighbourhood = std::max(kLeastPatience, kPatiencePerUnit * levels_[walker.level].members.size());
    if (walker.since_best > std::min(budget_ / kReturns, neighbourhood)) {
      walker.now = walker.best;
      walker.kicked = walker.since_best > neighbourhood;
      walker.since_best = 0;
      together_.reset();
    }
    used_ += batch.size();
    if (used_ >= quota_) {
      together_.reset();
      EndTurn();
    }
    return {};
  }

  bool Finished() const override { return nothing_to_move_; }

  static void SavedFields(auto& state, auto& self) {
    state.Word("multilevel_search");
    state(self.spent_, self.nothing_to_move_, self.turn_, self.used_, self.quota_, self.finer_quota_, self.best_,
          self.together_, self.walkers_);
    state.Check(self.turn_ < std::max<std::size_t>(self.walkers_.size(), 1), "a walker");
  }

 private:
  Walker& Turn() { return walkers_[turn_]; }

  // Combines all changes of the batch that improve on what they changed; where changes overlap, the best one counts.
  // None unless at least two improve.
  static std::optional<Placement> Together(const SearchPosition& from, std::span<const Placement> batch,
                                           std::span<const Score> scores, std::size_t best) {
    std::vector<std::size_t> better;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      if (i != best && scores[i].BetterThan(from.score)) better.push_back(i);
    }
    if (better.empty()) return std::nullopt;
    better.push_back(best);
    Placement all = from.placement;
    for (const std::size_t i : better) {
      for (std::size_t group = 0; group < all.num_ops(); ++group) {
        const OpId id = MakeId<OpId>(group);
        if (batch[i][id] != from.placement[id]) all[id] = batch[i][id];
      }
    }
    return all;
  }

  // Whether any group may go to more than one device.
  static bool AnyChoice(const Observation& seen) {
    const std::vector<DeviceId> all = AllDevices(seen.cluster);
    for (std::size_t group = 0; group < seen.num_groups(); ++group) {
      if (Candidates(seen, group, all).size() > 1) return true;
    }
    return false;
  }

  static std::size_t BestOf(std::span<const Score> scores) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < scores.size(); ++i) {
      if (scores[i].BetterThan(scores[best])) best = i;
    }
    return best;
  }

  // Everything on an accelerator with more memory than the fastest has, where all may not fit; none: no other has more.
  static std::optional<Placement> OnLargestDevice(const Observation& seen) {
    const auto memory = [&](DeviceId device) {
      const std::optional<Bytes>& bytes = seen.cluster.device(device).memory;
      return bytes ? bytes->count : std::numeric_limits<std::int64_t>::max();
    };
    if (seen.num_groups() == 0) return std::nullopt;
    const Placement on_fastest = OnOneOf(seen, seen.accelerators);
    std::int64_t most = 0;
    for (const DeviceId device : seen.accelerators) most = std::max(most, memory(device));
    std::vector<DeviceId> largest;
    for (const DeviceId device : seen.accelerators) {
      if (memory(device) == most) largest.push_back(device);
      if (memory(device) == most && device == on_fastest[MakeId<OpId>(0)]) return std::nullopt;
    }
    return OnOneOf(seen, largest);
  }

  std::vector<Placement> Starts(const Environment& env, Rng& rng) {
    std::vector<Placement> starts;
    level_of_start_.clear();
    const auto add = [&](Placement start, std::size_t level) {
      if (std::find(starts.begin(), starts.end(), start) != starts.end()) return;
      starts.push_back(std::move(start));
      level_of_start_.push_back(level);
    };
    const auto propose = [&](const Environment& of_level, std::string_view agent) -> std::optional<Placement> {
      if (!IsQuick(FindAgent(agent), of_level.observation().num_groups())) return std::nullopt;
      return MakeAgent(agent, {}, {})->Propose(of_level, Mode::kExplore, rng).placements[0];
    };
    if (env.start()) add(*env.start(), 0);
    if (env.stage_costs() != nullptr) {
      if (auto start = FinestContiguousSplit(env)) add(*std::move(start), 0);
      try {
        if (auto start = propose(env, "pipedream")) add(*std::move(start), 0);
      } catch (const InputError&) {
        // Too many layers for the planner: a start less.
      }
    }
    for (const std::string_view agent : kStarts) {
      if (auto start = propose(env, agent)) add(*std::move(start), 0);
    }
    if (auto start = OnLargestDevice(env.observation())) add(*std::move(start), 0);
    const std::size_t of_groups = starts.size();
    const NoEvaluator none;
    for (std::size_t level = 1; level < levels_.size(); ++level) {
      Environment coarse(env.op_graph(), env.observation().cluster, env.costs(), GroupingOfLevel(env, levels_[level]),
                         none);
      const auto add_units = [&](const Placement& units) {
        Placement start(env.observation().num_groups());
        for (std::size_t group = 0; group < start.num_ops(); ++group) {
          start[MakeId<OpId>(group)] = units[MakeId<OpId>(levels_[level].unit_of[group])];
        }
        add(std::move(start), level);
      };
      for (const std::string_view agent : kCoarseStarts) {
        if (const auto units = propose(coarse, agent)) add_units(*units);
      }
      for (std::size_t i = 0; i < of_groups; ++i) {
        coarse.SetStart(env.grouping().Expand(starts[i]));
        add_units(*coarse.start());
      }
    }
    return starts;
  }

  void BeginWalkers(const Environment& env, std::span<const Placement> starts, std::span<const Outcome> outcomes,
                    std::span<const Score> scores) {
    const auto begin = [&](std::size_t level, std::size_t start) {
      Walker& walker = walkers_.emplace_back();
      walker.level = level;
      Take(env, starts[start], scores[start], outcomes[start], &walker);
    };
    const std::size_t best_of_all = BestOf(scores);
    for (std::size_t level = 0; level < levels_.size(); ++level) {
      std::optional<std::size_t> best;
      for (std::size_t i = 0; i < starts.size(); ++i) {
        if (level_of_start_[i] < level || (best && !scores[i].BetterThan(scores[*best]))) continue;
        best = i;
      }
      if (!best) break;
      begin(level, *best);
      if (level == 1 && levels_.size() > 2 && *best != best_of_all) begin(level, best_of_all);
    }
    // n walkers, n - 1 rounds: n of them in the first, 2 in the last.
    const std::size_t n = walkers_.size();
    const std::size_t parts = n * (n + 1) / 2 - 1;
    const auto for_race = static_cast<std::size_t>(kRaceShare * static_cast<double>(budget_));
    if (parts > 0 && for_race / parts >= kLeastRound) {
      quota_ = for_race / parts;
    } else {
      walkers_.resize(1);
      quota_ = budget_;
    }
  }

  void EndTurn() {
    used_ = 0;
    if (walkers_.size() == 1) {
      Refine();
      return;
    }
    if (++turn_ < walkers_.size()) return;
    turn_ = 0;
    std::size_t worst = 0;
    for (std::size_t i = 1; i < walkers_.size(); ++i) {
      if (walkers_[worst].best.score.BetterThan(walkers_[i].best.score)) worst = i;
    }
    walkers_.erase(walkers_.begin() + static_cast<std::ptrdiff_t>(worst));
    if (walkers_.size() > 1) return;
    const std::size_t left = budget_ - std::min(budget_, spent_);
    const std::size_t level = walkers_[0].level;
    quota_ = level == 0 ? budget_ : static_cast<std::size_t>(kStayShare * static_cast<double>(left));
    if (level > 0) finer_quota_ = (left - quota_) / level;
  }

  void Refine() {
    Walker& walker = walkers_[0];
    if (walker.level > 0) --walker.level;
    walker.now = walker.best;
    quota_ = walker.level == 0 ? budget_ : finer_quota_;
  }

  bool Accepts(const Score& now, const Score& next) const {
    if (next.fits != now.fits) return next.fits;
    if (!next.fits) return !now.BetterThan(next);
    const double done = std::min(1.0, static_cast<double>(spent_) / static_cast<double>(budget_));
    const double threshold = kFirstThreshold * std::pow(kLastThreshold / kFirstThreshold, done);
    return next.reward >= now.reward - threshold * std::abs(now.reward);
  }

  void Take(const Environment& env, const Placement& placement, const Score& score, const Outcome& outcome,
            Walker* walker) const {
    walker->now = MakePosition(env, all_bytes_, placement, score, outcome);
    if (!walker->best.placement.num_ops() || score.BetterThan(walker->best.score)) {
      walker->best = walker->now;
      walker->since_best = 0;
    }
  }

  std::size_t budget_;
  std::size_t spent_ = 0;  // evaluations observed
  bool nothing_to_move_ = false;
  BestPlacement best_;
  std::optional<Placement> together_;  // the next to be evaluated
  std::vector<Walker> walkers_;        // still in the race, by level
  std::size_t turn_ = 0;               // index of the next walker
  std::size_t used_ = 0;               // evaluations of this turn
  std::size_t quota_ = 0;              // evaluations of a turn
  std::size_t finer_quota_ = 0;        // quota of the levels to which the last walker moves
  std::vector<SearchLevel> levels_;
  double all_bytes_ = 0;
  std::vector<std::size_t> level_of_start_;
};

}  // namespace

std::unique_ptr<Agent> MakeMultilevelSearchAgent(OptionReader& reader, const AgentContext& context) {
  reader.Finish();
  return std::make_unique<MultilevelSearch>(context.evaluations);
}

}  // namespace emplace::agents
