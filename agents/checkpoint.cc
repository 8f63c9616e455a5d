#include "agents/checkpoint.h"

#include <cmath>
#include <istream>
#include <ostream>
#include <sstream>
#include <utility>

#include "agents/saved_text.h"
#include "sim/base/check.h"

namespace emplace::agents {
namespace {

void SaveGraphState(std::ostream& out, const GraphState& state) {
  out << state.evaluations << ' ' << state.fitting << ' ' << state.saturated << ' ' << (state.best ? 1 : 0) << ' ';
  SavePlacement(out, state.best.value_or(Placement()));
  for (const auto& value : {state.best_micros, state.start_micros, state.final_micros, state.smallest_overflow_bytes}) {
    SaveOptionalDouble(out, value);
  }
  out << '\n' << state.trace.size() << ' ';
  for (const auto& [evaluations, micros] : state.trace) {
    out << evaluations << ' ';
    SaveDouble(out, micros);
  }
  out << '\n' << state.episodes.size() << ' ';
  for (const EpisodeRecord& record : state.episodes) {
    out << record.episode << ' ' << record.evaluations << ' ' << (record.argmax ? 1 : 0) << ' ';
    for (const double value : {record.final_micros, record.best_micros, record.entropy}) SaveDouble(out, value);
    const auto tied = record.tied ? std::optional<double>(static_cast<double>(*record.tied)) : std::nullopt;
    for (const auto& value : {record.mean_micros, record.gradient_norm, record.grouper_entropy, tied}) {
      SaveOptionalDouble(out, value);
    }
  }
  out << '\n';
}

// A count that was saved as a double.
std::optional<std::size_t> LoadOptionalCount(std::istream& in) {
  constexpr double kMost = 9e15;  // doubles hold all integers up to there
  const std::optional<double> count = LoadOptionalDouble(in);
  if (!count) return std::nullopt;
  if (!(*count >= 0 && *count <= kMost && *count == std::floor(*count))) RefuseSaved("a count");
  return static_cast<std::size_t>(*count);
}

GraphState LoadGraphState(std::istream& in) {
  GraphState state;
  state.evaluations = LoadNumber(in);
  state.fitting = LoadNumber(in);
  state.saturated = LoadNumber(in);
  const bool has_best = LoadNumber(in) != 0;
  Placement best = LoadPlacement(in);
  if (has_best) state.best = std::move(best);
  state.best_micros = LoadOptionalDouble(in);
  state.start_micros = LoadOptionalDouble(in);
  state.final_micros = LoadOptionalDouble(in);
  state.smallest_overflow_bytes = LoadOptionalDouble(in);
  const std::uint64_t gains = LoadNumber(in);
  for (std::uint64_t i = 0; i < gains; ++i) {
    const std::uint64_t evaluations = LoadNumber(in);
    state.trace.emplace_back(evaluations, LoadDouble(in));
  }
  const std::uint64_t episodes = LoadNumber(in);
  for (std::uint64_t i = 0; i < episodes; ++i) {
    EpisodeRecord record;
    record.episode = LoadNumber(in);
    record.evaluations = LoadNumber(in);
    record.argmax = LoadNumber(in) != 0;
    record.final_micros = LoadDouble(in);
    record.best_micros = LoadDouble(in);
    record.entropy = LoadDouble(in);
    record.mean_micros = LoadOptionalDouble(in);
    record.gradient_norm = LoadOptionalDouble(in);
    record.grouper_entropy = LoadOptionalDouble(in);
    record.tied = LoadOptionalCount(in);
    state.episodes.push_back(record);
  }
  return state;
}

}  // namespace

void SaveCheckpoint(std::ostream& out, const std::string& spec, const SearchState& state, const Agent& agent,
                    const Rng& rng) {
  std::ostringstream body;
  SaveText(body, spec);
  SaveText(body, state.part);
  body << state.graphs.size() << '\n';
  for (const GraphState& graph : state.graphs) SaveGraphState(body, graph);
  for (const double seconds : {state.times.policy, state.times.simulator, state.times.wall}) SaveDouble(body, seconds);
  body << '\n' << rng << '\n';
  agent.Save(body);
  body << "\nend\n";
  WriteSealed(out, "emplace.checkpoint 6", std::move(body).str());
}

namespace {

// Loads what SaveCheckpoint wrote after its first line.
SearchState LoadBody(const std::string& text, const std::string& spec, Agent& agent, Rng& rng) {
  std::istringstream in(text);
  if (LoadText(in, text.size()) != spec) {
    throw InputError("checkpoint", "is of another search; remove it, or name another file");
  }
  SearchState state;
  state.part = LoadText(in, text.size());
  const std::uint64_t graphs = LoadNumber(in);
  for (std::uint64_t i = 0; i < graphs; ++i) state.graphs.push_back(LoadGraphState(in));
  state.times.policy = LoadDouble(in);
  state.times.simulator = LoadDouble(in);
  state.times.wall = LoadDouble(in);
  if (!(in >> rng)) RefuseSaved("the state of the random numbers");
  agent.Load(in);
  ExpectWord(in, "end");
  return state;
}

}  // namespace

SearchState LoadCheckpoint(std::istream& in, const std::string& spec, Agent& agent, Rng& rng) {
  ExpectHead(in, "emplace.checkpoint", "6");
  return LoadBody(ReadSealed(in), spec, agent, rng);
}

}  // namespace emplace::agents
