#ifndef EMPLACE_AGENTS_RL_PLANNER_PLANNER_H_
#define EMPLACE_AGENTS_RL_PLANNER_PLANNER_H_

#include <memory>

#include "agents/agent.h"

namespace emplace::agents {

// A policy that reads the whole graph as a sequence of groups and places each: the agents hierarchical and coloc_rl.
// Options: options.h. An update uses `samples` placements of each of `groupings` groupings and minimises
//   -mean over placements j of (R_j - B) (log p(its grouping) + log p(placement j | its grouping)),
// by one step of Adam with a clipped gradient norm. With `step_per_reward` each placement is an update. Earlier updates
// have then changed the policy since it was sampled, as with asynchronous workers. B is a moving average of rewards,
// updated after the step. Placements that do not fit are used only in the first `drop_invalid_after` updates. In the
// first `noise_updates` updates noise is added to all logits, and training uses the probabilities with noise. Both
// numbers are the paper's, for 1,000 updates, whatever the budget. An op that cannot run on its group's device goes to
// the fastest device where it can. The last evaluation is of the most likely grouping and placement.

// Grouper and Placer.
// Source: Mirhoseini et al. 2018 (Hierarchical Planner), section 2, with defaults from its section 3. Its published
// code is not followed, as it computes the gradient of other actions than those measured. The paper does not give B's
// start; `baseline_at_failure` selects the code's, -10.
// Deviations: the decoder has as many units as both directions of the encoder (512, as in the code; 256 in the paper).
// A group's sums of shapes are 24 numbers, as many as an op has ("size 16" in the paper). Kinds of ops are those of our
// catalogue (in the paper the 200 most frequent).
std::unique_ptr<Agent> MakeHierarchicalAgent(OptionReader& reader, const AgentContext& context);

// The same Placer on manually defined groups, here the environment's grouping. placer=encoder: the baseline of Placeto,
// a bi-directional RNN of 512 units, with Adam's step decaying from 1e-3 to 1e-4.
// Source: Mirhoseini et al. 2017 (ColocRL) as described by Mirhoseini et al. 2018 (section 1) and Mitropolitsky 2020
// (2.5); Addanki et al. 2019 (Placeto), A.7.
std::unique_ptr<Agent> MakeColocRlAgent(OptionReader& reader, const AgentContext& context);

}  // namespace emplace::agents

#endif  // EMPLACE_AGENTS_RL_PLANNER_PLANNER_H_
