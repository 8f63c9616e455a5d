#ifndef EMPLACE_AGENTS_RL_PLANNER_PLANNER_H_
#define EMPLACE_AGENTS_RL_PLANNER_PLANNER_H_

#include <memory>

#include "agents/agent.h"

namespace emplace::agents {

// A policy that reads the whole graph as a sequence of groups and places each: the agents hierarchical and coloc_rl.
// Its settings: options.h. An update takes `samples` placements of each of `groupings` groupings and lowers
//   -mean over placements j of (R_j - B) (log p(its grouping) + log p(placement j | its grouping)),
// by one step of Adam on the gradient, its norm clipped. With `step_per_reward` each placement is an update; the policy
// has then changed by those before it since it was drawn, as with asynchronous workers. B is a moving average of
// rewards, brought up to date after the step. Placements that do not fit count in the first `drop_invalid_after`
// updates only. In the first `noise_updates` noise is added to all logits; what is learned from are the probabilities
// with it. Both numbers are the paper's, of 1,000 updates, whatever the budget is. An op that cannot run on its group's
// device goes to the fastest where it can. The last evaluation is of the likeliest grouping and placement.

// Grouper and Placer. Source: Mirhoseini et al. 2018 (Hierarchical Planner), section 2, the settings of its section 3
// as defaults; its published code, which computes the gradient of other actions than it measured, is not followed.
// The paper is silent on B's start; -10, the code's, is `baseline_at_failure`. Other than the paper: the decoder has as
// many units as both directions of the encoder (512, as the code's; 256 there), a group's sums of shapes are 24
// numbers, as many as an op has ("size 16" there), kinds of ops are those of our catalogue (its 200 most frequent
// there).
std::unique_ptr<Agent> MakeHierarchicalAgent(OptionReader& reader, const AgentContext& context);

// The same Placer on groups that were made by hand, which here the environment's grouping is. placer=encoder: the
// bi-directional RNN of 512 units, with Adam's step from 1e-3 down to 1e-4, that Placeto compares with.
// Source: Mirhoseini et al. 2017 (ColocRL) as Mirhoseini et al. 2018 (section 1) and Mitropolitsky 2020 (2.5) describe
// it; Addanki et al. 2019 (Placeto), A.7.
std::unique_ptr<Agent> MakeColocRlAgent(OptionReader& reader, const AgentContext& context);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_RL_PLANNER_PLANNER_H_
