#include "agents/heuristics/search_moves.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>

#include "agents/candidates.h"
#include "agents/heuristics/load_chain.h"

namespace emplace::agents {
namespace {

constexpr double kAnyGroup = 0.15;
constexpr double kAnyDevice = 0.3;
constexpr double kAnyKind = 0.1;
constexpr double kCoarserUnit = 0.3;
constexpr double kLargerPiece = 0.5;
constexpr std::size_t kLargestPiece = 512;
constexpr std::size_t kAttempts = 20;
constexpr double kMakeRoom = 0.9;
constexpr std::uint64_t kPlainChange = 4;  // one of this many changes does not unload a placement that does not fit

double BytesOf(const Observation& seen, std::size_t group) {
  return static_cast<double>((seen.persistent[group] + seen.output[group]).count);
}

DeviceId DeviceOf(const Placement& placement, std::size_t group) { return placement[MakeId<OpId>(group)]; }

}  // namespace

double AllBytes(const Observation& seen) {
  double all = 0;
  for (std::size_t group = 0; group < seen.num_groups(); ++group) all += BytesOf(seen, group);
  return all;
}

SearchPosition MakePosition(const Environment& env, double all_bytes, const Placement& placement, const Score& score,
                            const Outcome& outcome) {
  const Cluster& cluster = env.observation().cluster;
  SearchPosition position{.placement = placement, .score = score, .chain = {}, .over_bytes = {}};
  if (env.stage_costs() != nullptr) {
    position.chain = LoadChain(*env.stage_costs(), env.grouping().Expand(placement));
  } else if (!outcome.result.start_micros.empty()) {
    position.chain = CriticalChain(env.op_graph(), cluster, env.costs(), env.grouping().Expand(placement),
                                   outcome.result.start_micros);
  }
  const bool limited = std::ranges::any_of(cluster.devices(), [](const Device& d) { return d.memory.has_value(); });
  const bool ignores_memory = env.stage_costs() != nullptr && env.stage_options().memory == StageMemory::kNone;
  if (!limited || ignores_memory) return position;
  double peaks = 0;
  for (std::size_t d = 0; d < outcome.result.peak_memory.size(); ++d) {
    const std::optional<Bytes>& memory = cluster.devices()[d].memory;
    const auto peak = static_cast<double>(outcome.result.peak_memory[d].count);
    // A device without a limit has room for everything.
    position.over_bytes.push_back(peak - (memory ? static_cast<double>(memory->count) : 1e18));
    peaks += peak;
  }
  position.live_share = peaks / std::max(all_bytes, 1.0);
  return position;
}

Placement SearchMoves::Changed(const SearchPosition& from, std::size_t level, double one_more) {
  Placement changed = from.placement;
  if (!from.score.fits && rng_.Below(kPlainChange) != 0) {
    if (Unload(from, &changed)) return changed;
  }
  for (std::size_t attempt = 0; attempt < kAttempts; ++attempt) {
    if (Move(from.chain, level, &changed) && rng_.Uniform() >= one_more) break;
  }
  if (from.score.fits) MakeRoom(from, &changed);
  return changed;
}

// False if nothing has moved.
bool SearchMoves::Move(const std::vector<ChainLink>& chain, std::size_t level, Placement* placement) {
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

DeviceId SearchMoves::AnyDevice(std::size_t group) {
  const std::vector<DeviceId> all = AllDevices(seen_.cluster);
  const std::vector<DeviceId> devices = Candidates(seen_, group, rng_.Uniform() < kAnyKind ? all : seen_.accelerators);
  return devices[rng_.Below(devices.size())];
}

std::optional<DeviceId> SearchMoves::NeighboursDevice(const SearchLevel& units, std::size_t group,
                                                      const Placement& placement) {
  const std::span<const std::uint32_t> before = units.before[units.unit_of[group]];
  const std::span<const std::uint32_t> after = units.after[units.unit_of[group]];
  if (before.empty() && after.empty()) return std::nullopt;
  const std::size_t drawn = rng_.Below(before.size() + after.size());
  const std::size_t unit = drawn < before.size() ? before[drawn] : after[drawn - before.size()];
  return DeviceOf(placement, units.members[unit][0]);
}

void SearchMoves::MoveUnit(const SearchLevel& units, std::size_t unit, DeviceId from, DeviceId to,
                           Placement* placement) const {
  for (const std::uint32_t group : units.members[unit]) {
    DeviceId& device = (*placement)[MakeId<OpId>(group)];
    if (device == from && Allowed(group, to)) device = to;
  }
}

void SearchMoves::MovePiece(const SearchLevel& units, std::size_t first, DeviceId from, DeviceId to,
                            Placement* placement) {
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
bool SearchMoves::Unload(const SearchPosition& from, Placement* placement) {
  if (from.over_bytes.empty()) return false;  // it cannot run
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
    left -= BytesOf(seen_, group);
    moved = true;
  }
  return moved;
}

// For each device that has received more than it has memory for: moves groups that were there before to the device that
// has lost most.
void SearchMoves::MakeRoom(const SearchPosition& from, Placement* placement) {
  if (from.over_bytes.empty()) return;
  std::vector<double> gained(from.over_bytes.size(), 0);
  const std::size_t num_groups = seen_.num_groups();
  for (std::size_t group = 0; group < num_groups; ++group) {
    const DeviceId before = DeviceOf(from.placement, group);
    const DeviceId now = DeviceOf(*placement, group);
    if (before == now) continue;
    gained[Index(before)] -= from.live_share * BytesOf(seen_, group);
    gained[Index(now)] += from.live_share * BytesOf(seen_, group);
  }
  const auto poorest = std::min_element(gained.begin(), gained.end());
  const auto to = MakeId<DeviceId>(static_cast<std::size_t>(poorest - gained.begin()));
  for (std::size_t d = 0; d < gained.size(); ++d) {
    const auto full = MakeId<DeviceId>(d);
    double over = gained[d] + from.over_bytes[d];
    if (gained[d] <= 0 || over <= 0 || rng_.Uniform() >= kMakeRoom) continue;
    for (std::size_t swap = 0; swap < kAttempts && over > 0; ++swap) {
      // The smallest of the groups drawn that makes enough room, or the largest.
      std::optional<std::size_t> best;
      for (std::size_t draw = 0; draw < kAttempts; ++draw) {
        const std::size_t group = rng_.Below(seen_.num_groups());
        const bool was_there = DeviceOf(from.placement, group) == full && DeviceOf(*placement, group) == full;
        if (!was_there || !Allowed(group, to) || BytesOf(seen_, group) <= 0) continue;
        const auto waste = [&](std::size_t of) {
          const double left = over - from.live_share * BytesOf(seen_, of);
          return left > 0 ? 1e18 + left : -left;
        };
        if (!best || waste(group) < waste(*best)) best = group;
      }
      if (!best) break;
      (*placement)[MakeId<OpId>(*best)] = to;
      over -= from.live_share * BytesOf(seen_, *best);
    }
  }
}

}  // namespace emplace::agents
