#ifndef EMPLACE_AGENTS_RL_PLANNER_PLANNER_H_
#define EMPLACE_AGENTS_RL_PLANNER_PLANNER_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "agents/agent.h"

namespace emplace {

enum class GrouperKind : std::uint8_t { kLearned, kRandom, kNone };
enum class PlacerKind : std::uint8_t { kAttention, kEncoder, kNone };

// A policy that reads the whole graph as a sequence of groups and places each: the agents hierarchical and coloc_rl.
// An update takes `samples` placements of one grouping and lowers
//   -mean over placements j of (R_j - B) (log p(grouping) + log p(placement j | grouping)),
// by one step of Adam on the gradient, its norm clipped. B is a moving average of rewards, brought up to date after the
// step. Placements that do not fit count in the first `drop_invalid_after` updates only. In the first `noise_updates`
// noise is added to all logits; what is learned from are the probabilities with it. An op that cannot run on its
// group's device goes to the fastest where it can. The last evaluation is of the likeliest grouping and placement.
struct PlannerOptions {
  GrouperKind grouper = GrouperKind::kLearned;
  PlacerKind placer = PlacerKind::kAttention;
  std::size_t groups = 256;  // at most as many as there are ops
  std::size_t hidden = 256;  // of each direction of the Placer's encoder
  double temperature = 10;   // T
  double bound = 5;          // C; 0: none
  std::size_t samples = 4;   // k placements an update
  double learning_rate = 0.1;
  double final_learning_rate = 0.1;  // linear between
  double clip = 1;
  double entropy_weight = 0;
  double final_entropy_weight = 0;
  double baseline_decay = 0.9;
  bool baseline_at_failure =
      false;           // B starts at -10, the reward of what does not fit; else at the first rewards' mean
  double noise = 0.1;  // the largest of each row
  std::size_t noise_updates = 500;
  std::size_t drop_invalid_after = 500;
  bool raw_features = false;
  bool shuffle = false;  // the Placer gets the groups in an order drawn once
  bool final_evaluation = true;
  bool use_cpus = true;
};

// Grouper and Placer. Source: Mirhoseini et al. 2018 (Hierarchical Planner), section 2, the settings of its section 3
// as defaults; its published code, which computes the gradient of other actions than it measured, is not followed.
// The paper is silent on B's start; -10, the code's, is `baseline_at_failure`.
std::unique_ptr<Agent> MakeHierarchicalAgent(OptionReader& reader, const AgentContext& context);

// The same Placer on groups that were made by hand, which here the environment's grouping is. placer=encoder: the
// bi-directional RNN of 512 units, with Adam's step from 1e-3 down to 1e-4, that Placeto compares with.
// Source: Mirhoseini et al. 2017 (ColocRL) as Mirhoseini et al. 2018 (section 1) and Mitropolitsky 2020 (2.5) describe
// it; Addanki et al. 2019 (Placeto), A.7.
std::unique_ptr<Agent> MakeColocRlAgent(OptionReader& reader, const AgentContext& context);

}  // namespace emplace

#endif  // EMPLACE_AGENTS_RL_PLANNER_PLANNER_H_
