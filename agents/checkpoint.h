#ifndef EMPLACE_AGENTS_CHECKPOINT_H_
#define EMPLACE_AGENTS_CHECKPOINT_H_

#include <cstddef>
#include <iosfwd>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agents/agent.h"
#include "agents/episode_history.h"
#include "sim/base/check.h"
#include "sim/base/rng.h"
#include "sim/placement.h"

namespace emplace::agents {

// Progress of the search on one graph.
struct GraphState {
  std::size_t evaluations = 0;
  std::size_t fitting = 0;
  std::size_t saturated = 0;      // rewards at RewardEntry::floor
  std::optional<Placement> best;  // placement of groups
  std::optional<double> best_micros;
  std::optional<double> start_micros;  // step time of the first placement
  std::optional<double> final_micros;  // step time of the last placement, if it fits
  std::optional<double> smallest_overflow_bytes;
  std::vector<std::pair<std::size_t, double>> trace;  // (evaluations so far, best step time in us) at each improvement
  EpisodeHistory episodes;
  bool operator==(const GraphState&) const = default;

  static void SavedFields(auto& state, auto& self) {
    bool has_best = self.best.has_value();
    state(self.evaluations, self.fitting, self.saturated, has_best);
    state.OrEmpty(self.best, has_best);
    state(self.best_micros, self.start_micros, self.final_micros, self.smallest_overflow_bytes);
    state.NewLine();
    state(self.trace);
    state.NewLine();
    state(self.episodes);
    state.NewLine();
  }
};

// Times measured during a search, in s. They are not part of any result.
struct SearchTimes {
  double policy = 0;     // CPU time of the agent: proposing, learning, its policy applied to other graphs; of a process
                         // of its own all, its start included
  double simulator = 0;  // CPU time of evaluations, of all threads
  double wall = 0;       // wall-clock time of the search
  bool operator==(const SearchTimes&) const = default;

  static void SavedFields(auto& state, auto& self) { state(self.policy, self.simulator, self.wall); }
};

// A part of a search besides its agent, saved and loaded with it.
class SearchPart {
 public:
  virtual ~SearchPart() = default;
  virtual void Save(std::ostream& out) const = 0;
  // Loads what Save wrote. If that is invalid, throws InputError and leaves the object unchanged.
  virtual void Load(std::istream& in) = 0;
};

// The state besides the agent and the Rng that a search needs to resume after an interruption.
struct SearchState {
  std::vector<GraphState> graphs;
  SearchTimes times;
  std::string part;  // text saved by a SearchPart; "" if there is none
};

// A checkpoint file that a search cannot resume from: of another version or search, damaged, or unreadable.
class UnusableCheckpoint : public InputError {
 public:
  explicit UnusableCheckpoint(const InputError& error) : InputError(error) {}
};

// Format version 7. `spec` is a text that identifies the search; `agent` and `rng` are saved completely. A checksum
// precedes the data, so that corrupt data is rejected. Requires: the agent is not inside an episode
// (Proposal::episode_continues).
void SaveCheckpoint(std::ostream& out, const std::string& spec, const SearchState& state, const Agent& agent,
                    const Rng& rng);
// Throws InputError if the checkpoint is of another version or spec, or damaged.
SearchState LoadCheckpoint(std::istream& in, const std::string& spec, Agent& agent, Rng& rng);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_CHECKPOINT_H_
