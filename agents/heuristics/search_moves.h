#ifndef EMPLACE_AGENTS_HEURISTICS_SEARCH_MOVES_H_
#define EMPLACE_AGENTS_HEURISTICS_SEARCH_MOVES_H_

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "agents/environment.h"
#include "agents/heuristics/critical_chain.h"
#include "agents/heuristics/search_levels.h"
#include "agents/score.h"
#include "sim/base/rng.h"
#include "sim/placement.h"

namespace emplace::agents {

// A placement that a search has evaluated, with what its next changes depend on.
struct SearchPosition {
  Placement placement;
  Score score;
  std::vector<ChainLink> chain;  // the critical chain; empty if the simulation has no start times
  std::vector<double>
      over_bytes;         // [num_devices]: peak memory less capacity; empty if nothing has a limit, or cannot run
  double live_share = 0;  // sum of all peaks, of AllBytes()

  static void SavedFields(auto& state, auto& self) {
    state(self.placement, self.score, self.chain, self.over_bytes, self.live_share);
  }
};

// The persistent and output bytes of all groups.
double AllBytes(const Observation& seen);

// `all_bytes` is AllBytes() of the observation.
SearchPosition MakePosition(const Environment& env, double all_bytes, const Placement& placement, const Score& score,
                            const Outcome& outcome);

// Changed copies of a placement, by moves that multilevel_search.h describes. Keeps references: all must outlive it.
class SearchMoves {
 public:
  // `levels`: of `env`, from the finest to the coarsest.
  SearchMoves(const Environment& env, const std::vector<SearchLevel>& levels, Rng& rng)
      : env_(env), seen_(env.observation()), levels_(levels), rng_(rng) {}

  // One move of units of `level`, and with probability `one_more` another, and so on.
  Placement Changed(const SearchPosition& from, std::size_t level, double one_more);

 private:
  bool Allowed(std::size_t group, DeviceId device) const { return seen_.Allowed(group, Index(device)); }
  bool Move(const std::vector<ChainLink>& chain, std::size_t level, Placement* placement);
  DeviceId AnyDevice(std::size_t group);
  std::optional<DeviceId> NeighboursDevice(const SearchLevel& units, std::size_t group, const Placement& placement);
  void MoveUnit(const SearchLevel& units, std::size_t unit, DeviceId from, DeviceId to, Placement* placement) const;
  void MovePiece(const SearchLevel& units, std::size_t first, DeviceId from, DeviceId to, Placement* placement);
  bool Unload(const SearchPosition& from, Placement* placement);
  void MakeRoom(const SearchPosition& from, Placement* placement);

  const Environment& env_;
  const Observation& seen_;
  const std::vector<SearchLevel>& levels_;
  Rng& rng_;
};

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_HEURISTICS_SEARCH_MOVES_H_
