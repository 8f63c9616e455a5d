#ifndef EMPLACE_AGENTS_RL_PLACETO_PLACETO_GRAPH_H_
#define EMPLACE_AGENTS_RL_PLACETO_PLACETO_GRAPH_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agents/features.h"
#include "agents/nn/network.h"
#include "agents/rl/placeto/learner.h"
#include "agents/rl/placeto/returns.h"
#include "agents/score.h"

namespace emplace::agents {

// An evaluated placement: its start times and its score.
struct EvaluatedState {
  PlacementState state;
  Score score;
  double cost() const { return -score.reward; }

  static void SavedFields(auto& state, auto& self) { state(self.state, self.score); }
};

// One of the parallel episodes.
struct EpisodeWorker {
  PlacementState state;
  Episode episode;
  double best_micros = 0;
};

// State of one graph that the agent learns on.
struct PlacetoGraph {
  explicit PlacetoGraph(std::size_t baseline_episodes) : baselines(baseline_episodes) {}
  // Saved:
  std::optional<EvaluatedState> start;  // the first placement
  BestSoFar<PlacementState> best;
  std::optional<std::uint64_t> sample_seed;
  std::uint64_t order_seed = 0;
  std::size_t rounds = 0;
  std::size_t evaluations = 0;
  bool contributed = false;  // whether it contributed to the pending gradient
  StepBaselines baselines;
  static void SavedFields(auto& state, auto& self) {
    state(self.rounds, self.evaluations, self.contributed, self.sample_seed, self.order_seed, self.start, self.best,
          self.baselines);
    state.NewLine();
  }

  // Recomputed after loading:
  std::unique_ptr<GraphView> view;
  GraphSample sample;
  std::optional<std::uint64_t> sampled_from;
  std::vector<std::uint32_t> order;
  std::vector<std::vector<DeviceId>> devices;  // [num_groups]: devices that the policy may choose
  // The current round:
  bool argmax = false;
  std::string title;                   // title for messages: agent and episode
  std::vector<Placement> starting;     // proposed, evaluated before the first step
  std::vector<EpisodeWorker> workers;  // empty between rounds
};

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_RL_PLACETO_PLACETO_GRAPH_H_
