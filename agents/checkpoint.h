#ifndef EMPLACE_AGENTS_CHECKPOINT_H_
#define EMPLACE_AGENTS_CHECKPOINT_H_

#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agents/agent.h"
#include "sim/base/rng.h"
#include "sim/placement.h"

namespace emplace {

// Pieces of what agents save: words, numbers and placements as text, separated by blanks. The Load functions throw
// InputError on anything else.
void ExpectWord(std::istream& in, std::string_view word);
std::uint64_t LoadNumber(std::istream& in);
void SaveDouble(std::ostream& out, double value);  // exactly
double LoadDouble(std::istream& in);
void SaveOptionalDouble(std::ostream& out, const std::optional<double>& value);
std::optional<double> LoadOptionalDouble(std::istream& in);
void SaveFloats(std::ostream& out, std::span<const float> values);  // exactly, as bytes
std::vector<float> LoadFloats(std::istream& in);
void SavePlacement(std::ostream& out, const Placement& placement);
Placement LoadPlacement(std::istream& in);

// A file that only emplace writes: `head`, words such as "emplace.checkpoint 4", a blank and the fingerprint of `body`,
// the end of a line, and `body`.
void WriteSealed(std::ostream& out, const std::string& head, const std::string& body);
// The body, once the head has been read. Throws InputError unless it is what was written.
std::string ReadSealed(std::istream& in);

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

// A search that was interrupted: everything needed to go on as if it never was.
struct SearchState {
  std::vector<GraphState> graphs;
  SearchTimes times;
  std::string part;  // what a SearchPart saved; "" if there is none
};

// Version 4: `spec` says what was searched (anything that identifies it); `agent` and `rng` are saved whole. A checksum
// stands in front, so that what loads is what was saved. Requires: agent.AtRest().
void SaveCheckpoint(std::ostream& out, const std::string& spec, const SearchState& state, const Agent& agent,
                    const Rng& rng);
// Throws InputError if the checkpoint is of another version or spec, or broken.
SearchState LoadCheckpoint(std::istream& in, const std::string& spec, Agent& agent, Rng& rng);

}  // namespace emplace

#endif  // EMPLACE_AGENTS_CHECKPOINT_H_
