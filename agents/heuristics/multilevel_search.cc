#include "agents/heuristics/multilevel_search.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "agents/candidates.h"
#include "agents/heuristics/critical_chain.h"
#include "agents/heuristics/search_levels.h"
#include "agents/saved_text.h"
#include "agents/score.h"
#include "sim/base/check.h"
#include "sim/evaluator.h"

namespace emplace::agents {
namespace {

constexpr std::size_t kMostUnitsOfSlowStarts = 1000;
constexpr double kRaceShare = 0.3;
constexpr std::size_t kLeastRound = 16;
constexpr double kStayShare = 0.5;
constexpr double kFirstThreshold = 3e-3;
constexpr double kLastThreshold = 1e-4;
constexpr std::size_t kReturns = 8;
constexpr std::size_t kLeastPatience = 50;
constexpr std::size_t kPatiencePerUnit = 4;
constexpr double kAnyGroup = 0.15;
constexpr double kAnyDevice = 0.3;
constexpr double kAnyKind = 0.1;
constexpr double kCoarserUnit = 0.3;
constexpr double kLargerPiece = 0.5;
constexpr std::size_t kLargestPiece = 512;
constexpr double kOneMore = 0.2;
constexpr double kOneMoreOfKick = 0.75;
constexpr std::size_t kAttempts = 20;
constexpr double kMakeRoom = 0.9;

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

// Where a walker is, with what its next changes depend on.
struct Position {
  Placement placement;
  Score score;
  std::vector<ChainLink> chain;
  std::vector<double> over_bytes;  // [num_devices]: peak memory less capacity; empty if no device has a limit
  double live_share = 0;           // sum of all peaks, of the persistent and output bytes of all groups
};

struct Walker {
  std::size_t level = 0;
  std::size_t since_best = 0;  // evaluations
  bool kicked = false;         // the next changes are larger, and the best of them is accepted
  Position now;
  Position best;
};

void SavePosition(std::ostream& out, const Position& position) {
  SavePlacement(out, position.placement);
  SaveScore(out, position.score);
  out << position.chain.size() << ' ';
  for (const ChainLink& link : position.chain) {
    out << Index(link.op) << ' ' << static_cast<int>(link.wait) << ' ' << Index(link.before) << ' ';
  }
  out << position.over_bytes.size() << ' ';
  for (const double bytes : position.over_bytes) SaveDouble(out, bytes);
  SaveDouble(out, position.live_share);
}

Position LoadPosition(std::istream& in) {
  Position position;
  position.placement = LoadPlacement(in);
  position.score = LoadScore(in);
  for (std::uint64_t left = LoadNumber(in); left > 0; --left) {
    ChainLink link;
    link.op = MakeId<OpId>(LoadNumber(in));
    const std::uint64_t wait = LoadNumber(in);
    if (wait > static_cast<std::uint64_t>(Wait::kTransfer)) RefuseSaved("what an op waited for");
    link.wait = static_cast<Wait>(wait);
    link.before = MakeId<OpId>(LoadNumber(in));
    position.chain.push_back(link);
  }
  for (std::uint64_t left = LoadNumber(in); left > 0; --left) position.over_bytes.push_back(LoadDouble(in));
  position.live_share = LoadDouble(in);
  return position;
}

// Changes of one placement: see multilevel_search.h.
class Changes {
 public:
  Changes(const Environment& env, const std::vector<SearchLevel>& levels, Rng& rng)
      : env_(env), seen_(env.observation()), levels_(levels), rng_(rng) {}

  Placement Changed(const Position& from, std::size_t level, double one_more) {
    Placement changed = from.placement;
    if (!from.score.fits && rng_.Below(kMultilevelBatch) != 0) {
      if (Unload(from, &changed)) return changed;
    }
    for (std::size_t attempt = 0; attempt < kAttempts; ++attempt) {
      if (Move(from.chain, level, &changed) && rng_.Uniform() >= one_more) break;
    }
    if (from.score.fits) MakeRoom(from, &changed);
    return changed;
  }

 private:
  bool Allowed(std::size_t group, DeviceId device) const { return seen_.Allowed(group, Index(device)); }
  DeviceId DeviceOf(const Placement& placement, std::size_t group) const { return placement[MakeId<OpId>(group)]; }

  // False if nothing has moved.
  bool Move(const std::vector<ChainLink>& chain, std::size_t level, Placement* placement) {
    std::size_t group = rng_.Below(seen_.num_groups());
    std::optional<DeviceId> to;
    if (!chain.empty() && rng_.Uniform() >= kAnyGroup) {
      const ChainLink& link = chain[rng_.Below(chain.size())];
      group = env_.grouping().group_of(link.op);
      if (link.wait == Wait::kTransfer) {
        std::size_t other = env_.grouping().group_of(link.before);
        if (rng_.Below(2) == 0) std::swap(group, other);
        to = DeviceOf(*placement, other);
      }
    }
    const SearchLevel& units = levels_[level];
    if (!to) to = rng_.Uniform() < kAnyDevice ? AnyDevice(group) : NeighboursDevice(units, group, *placement);
    const DeviceId from = DeviceOf(*placement, group);
    if (!to || *to == from || !Allowed(group, *to)) return false;
    const std::size_t coarser = levels_.size() - 1 - level;
    if (coarser > 0 && rng_.Uniform() < kCoarserUnit) {
      const SearchLevel& larger = levels_[level + 1 + rng_.Below(coarser)];
      MoveUnit(larger, larger.unit_of[group], from, *to, placement);
    } else {
      MovePiece(units, units.unit_of[group], from, *to, placement);
    }
    return true;
  }

  DeviceId AnyDevice(std::size_t group) {
    const std::vector<DeviceId> all = AllDevices(seen_.cluster);
    const std::vector<DeviceId> devices =
        Candidates(seen_, group, rng_.Uniform() < kAnyKind ? all : seen_.accelerators);
    return devices[rng_.Below(devices.size())];
  }

  std::optional<DeviceId> NeighboursDevice(const SearchLevel& units, std::size_t group, const Placement& placement) {
    const std::span<const std::uint32_t> before = units.before[units.unit_of[group]];
    const std::span<const std::uint32_t> after = units.after[units.unit_of[group]];
    if (before.empty() && after.empty()) return std::nullopt;
    const std::size_t drawn = rng_.Below(before.size() + after.size());
    const std::size_t unit = drawn < before.size() ? before[drawn] : after[drawn - before.size()];
    return DeviceOf(placement, units.members[unit][0]);
  }

  void MoveUnit(const SearchLevel& units, std::size_t unit, DeviceId from, DeviceId to, Placement* placement) const {
    for (const std::uint32_t group : units.members[unit]) {
      DeviceId& device = (*placement)[MakeId<OpId>(group)];
      if (device == from && Allowed(group, to)) device = to;
    }
  }

  void MovePiece(const SearchLevel& units, std::size_t first, DeviceId from, DeviceId to, Placement* placement) {
    std::size_t size = 1;
    while (size < kLargestPiece && rng_.Uniform() < kLargerPiece) size *= 2;
    const std::uint64_t direction = rng_.Below(3);  // 0: readers, 1: producers, 2: both
    std::vector<std::uint32_t> piece = {static_cast<std::uint32_t>(first)};
    MoveUnit(units, first, from, to, placement);
    const auto add = [&](std::span<const std::uint32_t> near) {
      for (const std::uint32_t unit : near) {
        if (piece.size() >= size) return;
        const std::uint32_t group = units.members[unit][0];
        if (DeviceOf(*placement, group) != from || !Allowed(group, to)) continue;
        MoveUnit(units, unit, from, to, placement);
        piece.push_back(unit);
      }
    };
    for (std::size_t i = 0; i < piece.size() && piece.size() < size; ++i) {
      if (direction != 0) add(units.before[piece[i]]);
      if (direction != 1) add(units.after[piece[i]]);
    }
  }

  // Moves groups off the device that is over by most. False if there is none, or none of its groups may go elsewhere.
  bool Unload(const Position& from, Placement* placement) {
    const auto most = std::max_element(from.over_bytes.begin(), from.over_bytes.end());
    const auto least = std::min_element(from.over_bytes.begin(), from.over_bytes.end());
    if (*most <= 0 || *least >= 0) return false;
    const auto full = MakeId<DeviceId>(static_cast<std::size_t>(most - from.over_bytes.begin()));
    const auto roomy = MakeId<DeviceId>(static_cast<std::size_t>(least - from.over_bytes.begin()));
    double left = *most * 0.25 * std::exp2(3 * rng_.Uniform());
    const std::size_t first = rng_.Below(seen_.num_groups());
    bool moved = false;
    for (std::size_t i = 0; i < seen_.num_groups() && left > 0; ++i) {
      const std::size_t group = (first + i) % seen_.num_groups();
      if (DeviceOf(*placement, group) != full || !Allowed(group, roomy)) continue;
      (*placement)[MakeId<OpId>(group)] = roomy;
      left -= BytesOf(group);
      moved = true;
    }
    return moved;
  }

  double BytesOf(std::size_t group) const {
    return static_cast<double>((seen_.persistent[group] + seen_.output[group]).count);
  }

  // For each device that has received more than it has room for: moves groups that were there before to the device that
  // has lost most.
  void MakeRoom(const Position& from, Placement* placement) {
    if (from.over_bytes.empty()) return;
    std::vector<double> gained(from.over_bytes.size(), 0);
    for (std::size_t group = 0; group < seen_.num_groups(); ++group) {
      const DeviceId before = DeviceOf(from.placement, group);
      const DeviceId now = DeviceOf(*placement, group);
      if (before == now) continue;
      gained[Index(before)] -= from.live_share * BytesOf(group);
      gained[Index(now)] += from.live_share * BytesOf(group);
    }
    const auto poorest = std::min_element(gained.begin(), gained.end());
    const auto to = MakeId<DeviceId>(static_cast<std::size_t>(poorest - gained.begin()));
    for (std::size_t d = 0; d < gained.size(); ++d) {
      const auto full = MakeId<DeviceId>(d);
      double over = gained[d] + from.over_bytes[d];
      if (gained[d] <= 0 || over <= 0 || rng_.Uniform() >= kMakeRoom) continue;
      for (std::size_t swap = 0; swap < kAttempts && over > 0; ++swap) {
        // Of some groups drawn, the smallest that makes enough room, or the largest.
        std::optional<std::size_t> best;
        for (std::size_t draw = 0; draw < kAttempts; ++draw) {
          const std::size_t group = rng_.Below(seen_.num_groups());
          const bool was_there = DeviceOf(from.placement, group) == full && DeviceOf(*placement, group) == full;
          if (!was_there || !Allowed(group, to) || BytesOf(group) <= 0) continue;
          const auto waste = [&](std::size_t of) {
            const double left = over - from.live_share * BytesOf(of);
            return left > 0 ? 1e18 + left : -left;
          };
          if (!best || waste(group) < waste(*best)) best = group;
        }
        if (!best) break;
        (*placement)[MakeId<OpId>(*best)] = to;
        over -= from.live_share * BytesOf(*best);
      }
    }
  }

  const Environment& env_;
  const Observation& seen_;
  const std::vector<SearchLevel>& levels_;
  Rng& rng_;
};

class MultilevelSearch : public Agent {
 public:
  explicit MultilevelSearch(std::size_t budget) : budget_(std::max<std::size_t>(budget, 1)) {}

  EvaluationNeeds Needs() const override { return {.start_times = true, .peak_memory = false}; }

  Proposal Propose(const Environment& env, Mode mode, Rng& rng) override {
    if (mode == Mode::kExploit && best_.value()) return {.placements = {*best_.value()}};
    if (levels_.empty()) levels_ = MakeSearchLevels(env);
    if (walkers_.empty()) return {.placements = Starts(env, rng)};
    Changes changes(env, levels_, rng);
    Proposal proposal;
    if (together_) proposal.placements.push_back(*together_);
    const Walker& walker = Turn();
    while (proposal.placements.size() < kMultilevelBatch) {
      proposal.placements.push_back(
          changes.Changed(walker.now, walker.level, walker.kicked ? kOneMoreOfKick : kOneMore));
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
    if (kicked || Accepts(walker.now.score, scores[chosen])) {
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

  void Save(std::ostream& out) const override {
    out << "multilevel_search " << spent_ << ' ' << (nothing_to_move_ ? 1 : 0) << ' ' << turn_ << ' ' << used_ << ' '
        << quota_ << ' ' << finer_quota_ << ' ';
    SaveBest(out, best_);
    out << (together_ ? 1 : 0) << ' ';
    if (together_) SavePlacement(out, *together_);
    out << walkers_.size() << ' ';
    for (const Walker& walker : walkers_) {
      out << walker.level << ' ' << walker.since_best << ' ' << (walker.kicked ? 1 : 0) << ' ';
      SavePosition(out, walker.now);
      SavePosition(out, walker.best);
    }
  }
  void Load(std::istream& in) override {
    ExpectWord(in, "multilevel_search");
    spent_ = LoadNumber(in);
    nothing_to_move_ = LoadNumber(in) != 0;
    turn_ = LoadNumber(in);
    used_ = LoadNumber(in);
    quota_ = LoadNumber(in);
    finer_quota_ = LoadNumber(in);
    best_ = LoadBest(in);
    together_.reset();
    if (LoadNumber(in) != 0) together_ = LoadPlacement(in);
    walkers_.clear();
    for (std::uint64_t left = LoadNumber(in); left > 0; --left) {
      Walker walker;
      walker.level = LoadNumber(in);
      walker.since_best = LoadNumber(in);
      walker.kicked = LoadNumber(in) != 0;
      walker.now = LoadPosition(in);
      walker.best = LoadPosition(in);
      walkers_.push_back(std::move(walker));
    }
    if (turn_ >= std::max<std::size_t>(walkers_.size(), 1)) RefuseSaved("a walker");
  }

 private:
  Walker& Turn() { return walkers_[turn_]; }

  // All changes of the batch that are better than what they changed, in one; the best change has the last word. None
  // unless two are better.
  static std::optional<Placement> Together(const Position& from, std::span<const Placement> batch,
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

  std::vector<Placement> Starts(const Environment& env, Rng& rng) {
    std::vector<Placement> starts;
    const auto add = [&](const Environment& of_level, std::size_t level, std::string_view agent) {
      if (FindAgent(agent).max_ops != 0 && of_level.observation().num_groups() > kMostUnitsOfSlowStarts) return;
      const Placement units = MakeAgent(agent, {}, {})->Propose(of_level, Mode::kExplore, rng).placements[0];
      Placement start(env.observation().num_groups());
      for (std::size_t group = 0; group < start.num_ops(); ++group) {
        start[MakeId<OpId>(group)] = units[MakeId<OpId>(levels_[level].unit_of[group])];
      }
      if (std::find(starts.begin(), starts.end(), start) != starts.end()) return;
      starts.push_back(std::move(start));
      level_of_start_.push_back(level);
    };
    level_of_start_.clear();
    if (env.start()) {
      starts.push_back(*env.start());
      level_of_start_.push_back(0);
    }
    for (const std::string_view agent : kStarts) add(env, 0, agent);
    const NoEvaluator none;
    for (std::size_t level = 1; level < levels_.size(); ++level) {
      const Environment coarse(env.op_graph(), env.observation().cluster, env.costs(),
                               GroupingOfLevel(env, levels_[level]), none);
      for (const std::string_view agent : kCoarseStarts) add(coarse, level, agent);
    }
    return starts;
  }

  void BeginWalkers(const Environment& env, std::span<const Placement> starts, std::span<const Outcome> outcomes,
                    std::span<const Score> scores) {
    for (std::size_t level = 0; level < levels_.size(); ++level) {
      std::optional<std::size_t> best;
      for (std::size_t i = 0; i < starts.size(); ++i) {
        if (level_of_start_[i] < level || (best && !scores[i].BetterThan(scores[*best]))) continue;
        best = i;
      }
      if (!best) break;
      Walker walker;
      walker.level = level;
      walkers_.push_back(std::move(walker));
      Take(env, starts[*best], scores[*best], outcomes[*best], &walkers_.back());
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

  static void Take(const Environment& env, const Placement& placement, const Score& score, const Outcome& outcome,
                   Walker* walker) {
    const Observation& seen = env.observation();
    walker->now = {.placement = placement, .score = score, .chain = {}, .over_bytes = {}, .live_share = 0};
    if (!outcome.result.start_micros.empty()) {
      walker->now.chain = CriticalChain(env.op_graph(), seen.cluster, env.costs(), env.grouping().Expand(placement),
                                        outcome.result.start_micros);
    }
    const bool limited =
        std::ranges::any_of(seen.cluster.devices(), [](const Device& d) { return d.memory.has_value(); });
    for (std::size_t d = 0; d < outcome.result.peak_memory.size() && limited; ++d) {
      const std::optional<Bytes>& memory = seen.cluster.devices()[d].memory;
      // A device without a limit has room for everything.
      const double capacity = memory ? static_cast<double>(memory->count) : 1e18;
      walker->now.over_bytes.push_back(static_cast<double>(outcome.result.peak_memory[d].count) - capacity);
      walker->now.live_share += static_cast<double>(outcome.result.peak_memory[d].count);
    }
    if (walker->now.live_share > 0) {
      double all = 0;
      for (std::size_t group = 0; group < seen.num_groups(); ++group) {
        all += static_cast<double>((seen.persistent[group] + seen.output[group]).count);
      }
      walker->now.live_share /= std::max(all, 1.0);
    }
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
  std::size_t turn_ = 0;               // of walkers_
  std::size_t used_ = 0;               // evaluations of this turn
  std::size_t quota_ = 0;              // evaluations of a turn
  std::size_t finer_quota_ = 0;        // of the levels to which the last walker goes
  std::vector<SearchLevel> levels_;
  std::vector<std::size_t> level_of_start_;
};

}  // namespace

std::unique_ptr<Agent> MakeMultilevelSearchAgent(OptionReader& reader, const AgentContext& context) {
  reader.Finish();
  return std::make_unique<MultilevelSearch>(context.evaluations);
}

}  // namespace emplace::agents
