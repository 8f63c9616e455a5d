#include "agents/rl/placeto/placeto_graph.h"

#include <istream>
#include <ostream>

#include "agents/saved_text.h"

namespace emplace::agents {
namespace {

// Written for LoadEvaluated(). An empty `state`: nothing was evaluated.
void SaveEvaluated(std::ostream& out, const std::optional<PlacementState>& state, const Score& score) {
  out << (state ? 1 : 0) << ' ';
  if (!state) return;
  SavePlacement(out, state->placement);
  for (const auto* const list : {&state->starts, &state->peaks}) {
    out << list->size() << ' ';
    for (const double value : *list) SaveDouble(out, value);
  }
  SaveDouble(out, state->step_micros);
  SaveScore(out, score);
}

std::optional<EvaluatedState> LoadEvaluated(std::istream& in) {
  if (LoadNumber(in) == 0) return std::nullopt;
  EvaluatedState evaluated;
  evaluated.state.placement = LoadPlacement(in);
  evaluated.state.done.resize(evaluated.state.placement.num_ops());
  for (auto* const list : {&evaluated.state.starts, &evaluated.state.peaks}) {
    const std::size_t size = LoadNumber(in);
    for (std::size_t i = 0; i < size; ++i) list->push_back(LoadDouble(in));
  }
  evaluated.state.step_micros = LoadDouble(in);
  evaluated.score = LoadScore(in);
  return evaluated;
}

}  // namespace

void PlacetoGraph::Save(std::ostream& out) const {
  out << rounds << ' ' << evaluations << ' ' << (contributed ? 1 : 0) << ' ' << (sample_seed ? 1 : 0) << ' '
      << sample_seed.value_or(0) << ' ' << order_seed << ' ';
  SaveEvaluated(out, start ? std::optional(start->state) : std::nullopt, start ? start->score : Score());
  SaveEvaluated(out, best.value(), best.score());
  baselines.Save(out);
  out << '\n';
}

void PlacetoGraph::Load(std::istream& in) {
  rounds = LoadNumber(in);
  evaluations = LoadNumber(in);
  contributed = LoadNumber(in) != 0;
  const bool has_sample = LoadNumber(in) != 0;
  const std::uint64_t seed = LoadNumber(in);
  sample_seed = has_sample ? std::optional(seed) : std::nullopt;
  order_seed = LoadNumber(in);
  start = LoadEvaluated(in);
  best = {};
  if (const auto saved = LoadEvaluated(in)) best.Keep(saved->state, saved->score);
  baselines.Load(in);
}

}  // namespace emplace::agents
