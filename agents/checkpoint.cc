#include "agents/checkpoint.h"

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
  out << '\n';
  state.episodes.Save(out);
  out << '\n';
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
  state.episodes.Load(in);
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
  WriteSealed(out, "emplace.checkpoint 7", std::move(body).str());
}

namespace {

// Loads what SaveCheckpoint wrote after its first line.
SearchState LoadBody(const std::string& text, const std::string& spec, Agent& agent, Rng& rng) {
  std::istringstream in(text);
  if (LoadText(in, text.size()) != spec) {
    throw InputError("checkpoint", "belongs to another search; remove it, or name another file");
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
  ExpectHead(in, "emplace.checkpoint", "7");
  return LoadBody(ReadSealed(in), spec, agent, rng);
}

}  // namespace emplace::agents
