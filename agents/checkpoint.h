#ifndef EMPLACE_AGENTS_CHECKPOINT_H_
#define EMPLACE_AGENTS_CHECKPOINT_H_

#include <cstddef>
#include <iosfwd>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agents/agent.h"
#include "sim/base/rng.h"
#include "sim/placement.h"

namespace emplace::agents {

// How far the search on one graph has come.
struct GraphState {
  std::size_t evaluations = 0;
  std::size_t fitting = 0;
  std::optional<Placement> best;  // of groups
  std::optional<double> best_micros;
  std::optional<double> start_micros;  // step time of the first placement
  std::optional<double> final_micros;  // of the last one
  std::optional<double> smallest_overflow_bytes;
  std::vector<std::pair<std::size_t, double>> trace;  // at each gain: evaluations so far, best step time in us
  std::vector<EpisodeRecord> episodes;
  bool operator==(const GraphState&) const = default;
};

// Where the time of a search went, in s. A clock's figures: part of no result.
struct SearchTimes {
  double policy = 0;     // CPU time in the agent: proposing, learning
  double simulator = 0;  // CPU time in evaluating, of all threads
  double wall = 0;       // time on the clock, for everything
  bool operator==(const SearchTimes&) const = default;
};

// Part of a search beside its agent: saved and loaded with it.
class SearchPart {
 public:
  virtual ~SearchPart() = default;
  virtual void Save(std::ostream& out) const = 0;
  // What Save wrote. Throws InputError, and is as it was, if it is broken.
  virtual void Load(std::istream& in) = 0;
};

// Everything beside the agent and its random numbers that a search needs to go on after an interruption.
struct SearchState {
  std::vector<GraphState> graphs;
  SearchTimes times;
  std::string part;  // what a SearchPart saved; "" if there is none
};

// Version 4: `spec` is a text that identifies the search; `agent` and `rng` are saved whole. A checksum comes first, so
// that only what was saved is loaded. Requires: no episode of the agent is under way (Proposal::episode_continues).
void SaveCheckpoint(std::ostream& out, const std::string& spec, const SearchState& state, const Agent& agent,
                    const Rng& rng);
// Throws InputError if the checkpoint is of another version or spec, or broken.
SearchState LoadCheckpoint(std::istream& in, const std::string& spec, Agent& agent, Rng& rng);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_CHECKPOINT_H_
