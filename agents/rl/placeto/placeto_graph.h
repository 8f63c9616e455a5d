#ifndef EMPLACE_AGENTS_RL_PLACETO_PLACETO_GRAPH_H_
#define EMPLACE_AGENTS_RL_PLACETO_PLACETO_GRAPH_H_

#include <cstddef>
#include <cstdint>
#include <iosfwd>
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

// A placement that was evaluated: how its groups ran, and how good it is.
struct EvaluatedState {
  PlacementState state;
  Score score;
  double cost() const { return -score.reward; }
};

// One of the episodes that are played side by side.
struct EpisodeWorker {
  PlacementState state;
  Episode episode;
  double best_micros = 0;
};

// One of the graphs that the agent learns on.
struct PlacetoGraph {
  explicit PlacetoGraph(std::size_t baseline_episodes) : baselines(baseline_episodes) {}
  // Saved:
  std::optional<EvaluatedState> start;  // the first placement
  BestSoFar<PlacementState> best;
  std::optional<std::uint64_t> sample_seed;
  std::uint64_t order_seed = 0;
  std::size_t rounds = 0;
  std::size_t evaluations = 0;
  bool contributed = false;  // to the pending gradient
  StepBaselines baselines;
  void Save(std::ostream& out) const;
  // Replaces what is saved.
  void Load(std::istream& in);

  // Made anew:
  std::unique_ptr<GraphView> view;
  GraphSample sample;
  std::optional<std::uint64_t> sampled_from;
  std::vector<std::uint32_t> order;
  std::vector<std::vector<DeviceId>> devices;  // [num_groups]: where the policy may put a group
  // The current round:
  bool argmax = false;
  std::string title;                   // for messages: the agent and the episode
  std::vector<Placement> starting;     // proposed, to be evaluated before the first step
  std::vector<EpisodeWorker> workers;  // empty between rounds
};

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_RL_PLACETO_PLACETO_GRAPH_H_
